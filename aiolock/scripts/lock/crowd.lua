-- crowd: ends the places of those at the front of a queue who live but do not hear, if a request saw nobody else.
-- Their processes come back with their numbers. Then the last in the queue, who came most recently and so most likely
-- hears, is told to ask: its request continues the work.
-- KEYS    state, queue, alive; from KEYS[at]
-- returns nothing
-- If a command is denied: nothing was changed, or nobody is told, and the next request on the name continues.
local function disperse(name, channel, deaf)
  local queue = KEYS[name.at + 1]
  if deaf[1] then redis.call('ZREM', queue, unpack(deaf)) end
  local last = redis.call('ZRANGE', queue, -1, -1)[1]
  if last then redis.pcall('PUBLISH', channel .. string.match(last, '^[^:]*'), 'refresh ' .. last) end
end
