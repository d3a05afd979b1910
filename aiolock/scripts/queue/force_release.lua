-- force_release: ends every hold of a name, or those of a fence, tells their managers, and lets in who comes next.
-- KEYS    name (5)
-- ARGV    channel before, after, fence (0: any), capacity
-- returns how many holds were ended
-- Leaves the state dirty: the next holder sees `abandoned`.
-- If a command is denied: a holder is deleted before any message, so a denied DEL or HDEL changes nothing.
local name = open(1, ARGV[4])
prune(name)
local ended = 0
for _, owner in ipairs(redis.call('HKEYS', name.holders)) do
  local _, weight, mints, fence = read(name, owner)
  if owner ~= 'used' and (ARGV[3] == '0' or ARGV[3] == fence) then
    drop(name, owner, weight, mints == '1')
    ended = ended + 1
    redis.pcall('PUBLISH', ARGV[1] .. string.match(owner, '^[^:]*') .. ARGV[2], 'revoked ' .. owner .. ' ' .. fence)
  end
end
settle(name)
return ended
