-- set_capacity: changes how much a name holds at once, for every manager, and lets in whom that lets in.
-- KEYS    name (5)
-- ARGV    channel before, after, capacity
-- returns the capacity before
-- Takes nothing away: a name that holds more than that grants nothing until enough was released.
-- If a command is denied: HSET is the first write, so nothing was changed.
local name = open(1, ARGV[3])
local before = name.capacity
redis.call('HSET', name.state, 'capacity', ARGV[3], 'resized', 1)
name.capacity = tonumber(ARGV[3])
keep(name.state, 0)
settle(name)
return before
