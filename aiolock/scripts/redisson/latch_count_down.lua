-- latch_count_down: counts an RCountDownLatch down; with the last count it goes, and those that wait are told.
-- KEYS    the number
-- ARGV    channel
-- returns how many counts it lacks
-- It counts each time that it runs, as Redisson's does: so it is never written again.
-- If a command is denied: nothing was changed, or nobody is told.
local left = tonumber(redis.call('GET', KEYS[1]) or 0) - 1
if left > 0 then return redis.call('INCRBY', KEYS[1], -1) end
redis.call('DEL', KEYS[1])
if left == 0 then redis.pcall('PUBLISH', ARGV[1], '0') end
return 0
