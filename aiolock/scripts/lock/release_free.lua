-- release_free: frees a name without a queue. Follows version, and precedes all other files that define functions: a
-- script that runs cold pays for those. All other cases are left to release.
-- KEYS    state, queue, alive
-- ARGV    owner, clean state ttl ms, channel of managers
-- returns 'released <fence>', or continues
-- If a command is denied: nothing was changed, but maybe how long a free name is kept.
local owner, head, number = ARGV[1], nil, nil
local state = redis.pcall('HMGET', KEYS[1], 'version', 'owner', 'fence')
local ends = state[2] == owner and state[1] == VERSION and find(state[3] or '', '^%d+$') and not ARGV[4]
if ends then
  head, number = unpack(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES'))
  if not head then
    redis.call('HDEL', KEYS[1], 'owner', 'depth', 'before', 'abandoned', 'expires', 'process')
    redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
    return 'released ' .. state[3]
  end
end
