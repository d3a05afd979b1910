-- clock: the server's time, read once: `time` is {s, µs}, `now` is ms.
-- returns nothing
-- If a command is denied: nothing was changed.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
