-- force_release: frees the lock whoever holds it, and tells the holder's manager.
-- KEYS    lock, state
-- ARGV    fence (0: any), channel, manager channel before and after the manager's id
-- returns 1 | 0 (free already, or held under another fence)
-- Leaves the state dirty: the next holder sees `abandoned`.
-- If a command is denied: DEL comes before any message, so a denied DEL changes nothing.
local owners = redis.call('HKEYS', KEYS[1])
local fence = redis.call('HGET', KEYS[2], 'fence') or '0'
if #owners == 0 or (ARGV[1] ~= '0' and ARGV[1] ~= fence) then return 0 end
redis.call('DEL', KEYS[1])
for _, owner in ipairs(owners) do
  local manager = string.match(owner, '^[^:]*')
  redis.pcall('PUBLISH', ARGV[3] .. manager .. ARGV[4], 'revoked ' .. owner .. ' ' .. fence)
end
redis.pcall('PUBLISH', ARGV[2], 'force ' .. fence)
return 1
