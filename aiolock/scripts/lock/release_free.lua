-- release_free: frees a name without a queue. Precedes all files that define functions: a script that runs
-- cold pays for those. All other cases are left to release.
-- KEYS    state, queue, alive
-- ARGV    owner, clean state ttl ms, channel of managers
-- returns 'released <fence>', or continues
-- If a command is denied: nothing was changed.
local owner, state, head, number = ARGV[1], redis.call('GET', KEYS[1]), nil, nil
if not ARGV[4] and state and string.sub(state, 1, #owner + 1) == owner .. ' ' then
  head, number = unpack(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES'))
  local fence, before = string.match(state, '^%S+ (%d+) (%d+) ')
  if not head and not redis.pcall('SET', KEYS[1], '- ' .. fence .. ' ' .. before .. ' 0 0 0 ', 'PX', ARGV[2]).err then
    return 'released ' .. fence
  end
end
