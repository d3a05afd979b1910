-- set_capacity: changes how much a name holds at once, for every manager, and lets in those that now fit. Of those that
-- wait for more than there is, the first are told 'refresh <owner>', and their requests fail; the others at their next.
-- KEYS    name (2)
-- ARGV    channel of managers, capacity
-- returns the capacity before
-- Takes nothing away: a name that holds more than that grants nothing until enough is released.
-- If a command is denied: see close.lua; it has changed, or it has not.
local state = open(1, ARGV[2], {})
local before = state.capacity
state.capacity, state.resized, state.grows = tonumber(ARGV[2]), '1', true
local waiting = redis.call('ZRANGEBYSCORE', state.order, FIRST, '+inf', 'LIMIT', 0, room)
fetch(state, waiting)
for _, owner in ipairs(waiting) do
  local _, _, _, weight = waiter(state, owner)
  if weight and tonumber(weight) > state.capacity then tell(state, owner, 'refresh', owner) end
end
settle(state)
close(state)
return before
