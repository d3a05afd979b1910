-- force_release: ends the holds of a name and tells their managers; not all of many, but nobody is let in before the
-- rest was ended by another request like this, or a second has passed.
-- KEYS    name (2)
-- ARGV    channel before, after, capacity
-- returns {how many holds were ended, how many are left}
-- Leaves the state dirty: the next holder sees `abandoned`.
-- If a command is denied: see close.lua; a hold is told of only when it was ended.
local name, ended = open(1, ARGV[3], {}), 0
prune(name)
for _, owner in ipairs(redis.call('ZRANGEBYSCORE', name.order, '(' .. text(NOW), '(' .. FIRST, 'LIMIT', 0, room)) do
  local _, weight, mints, fence = holder(name, owner)
  if weight then
    drop(name, owner, weight, mints == '1')
    tell(name, owner, 'revoked', owner, fence)
    ended = ended + 1
  end
end
local left = name.holders
name.shut = left > 0 and NOW + 1000 or 0
settle(name)
close(name)
return { ended, left }
