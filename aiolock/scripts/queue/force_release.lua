-- force_release: ends the holds of a name and tells their managers; of many only some, but no one is let in before the
-- rest was ended by another request like this, or a second has passed.
-- KEYS    name (2)
-- ARGV    channel of managers, capacity
-- returns {how many holds were ended, how many are left}
-- Leaves it `abandoned`, as the next holder is told.
-- If a command is denied: see close.lua; a manager is told only of a hold that was ended.
local state, ended = open(1, ARGV[2], {}), 0
prune(state)
for _, owner in ipairs(redis.call('ZRANGEBYSCORE', state.order, '(' .. text(clock(state)), '(' .. FIRST, 'LIMIT', 0, room)) do
  local _, weight, mints, fence = holder(state, owner)
  if weight then
    drop(state, owner, weight, mints == '1')
    tell(state, owner, 'revoked', owner, fence)
    ended = ended + 1
  end
end
local left = state.holders
state.shut = left > 0 and clock(state) + 1000 or 0
settle(state)
close(state)
return { ended, left }
