-- set_capacity: changes how much a name holds at once, for every manager, and lets in those that now fit.
-- KEYS    name (2)
-- ARGV    channel of managers, capacity
-- returns the capacity before
-- Takes nothing away: a name that holds more than that grants nothing until enough is released.
-- If a command is denied: see close.lua; it has changed, or it has not.
local state = open(1, ARGV[2], {})
local before = state.capacity
state.capacity, state.resized, state.grows = tonumber(ARGV[2]), '1', true
settle(state)
close(state)
return before
