-- acquire_own: makes what the queue has granted to the owner a hold. Follows version and clock, and precedes all other
-- files that define functions: a script that runs cold pays for those. All other cases are left to acquire.
-- KEYS    state, queue, alive, tombstone of the owner
-- ARGV    as acquire
-- returns 'granted <fence> <pttl> <abandoned>', or continues
-- If a command is denied: nothing was changed.
local owner, ttl, key = ARGV[1], tonumber(ARGV[2]), KEYS[1]
local state = redis.pcall('HMGET', key, 'version', 'owner', 'fence', 'abandoned', 'depth', 'expires')
local ends, px = string.format('%.0f', now + ttl), string.format('%.0f', ttl + 86400000)
if state[2] == owner and state[1] == VERSION and state[5] == '0' and (tonumber(state[6]) or 0) > now
  and (tonumber(state[3]) or -1) >= tonumber(ARGV[3]) and redis.call('EXISTS', KEYS[4]) == 0
  and redis.pcall('PEXPIRE', key, px) == 1 then -- first, as in state
  redis.call('HSET', key, 'depth', '1', 'before', '0', 'expires', ends, 'process', ARGV[4])
  return 'granted ' .. state[3] .. ' ' .. ARGV[2] .. ' ' .. state[4]
end
