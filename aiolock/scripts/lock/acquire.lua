-- acquire: grants the lock to an owner, or says who has it.
-- KEYS    lock, state, tombstone of the owner; if it polls, mark of those who poll
-- ARGV    owner, ttl ms, floor, metadata; if not 1, 0, 0: depth, fence (0: not nested), mark ttl ms (0: does not poll)
-- returns 'granted <fence> <pttl> <abandoned>', as text costs less than a list | {'refused', pttl, fence, metadata}
--         | {'lost', 'deleted' or 'taken_over'} | {'finished'}
-- Only depth 1 creates, nothing shortens, and a copy of the request reads its own grant.
-- If a command is denied: the state is written before the lock, so at worst a fence is left that nobody holds.
local owner, ttl, depth, fence = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5] or 1), ARGV[6] or '0'
local pttl, state, count = -2, nil, nil
if redis.call('EXISTS', KEYS[3], KEYS[1]) == 0 then
  state = redis.call('HMGET', KEYS[2], 'fence', 'clean')
  if depth > 1 then return {'lost', 'deleted'} end
else
  if redis.call('EXISTS', KEYS[3]) == 1 then return {'finished'} end
  pttl = redis.call('PTTL', KEYS[1])
  state = redis.call('HMGET', KEYS[2], 'fence', 'clean', 'owner', 'abandoned', 'metadata')
  count = redis.call('HGET', KEYS[1], owner)
  if not count and depth == 1 then
    if KEYS[4] then redis.pcall('SET', KEYS[4], 1, 'PX', ARGV[7]) end
    return {'refused', pttl, state[1] or '0', state[5] or ''}
  end
  local other = state[1] and (state[3] ~= owner or (fence ~= '0' and state[1] ~= fence))
  if not count or other then return {'lost', 'taken_over'} end
end
if not count or not state[1] then
  state[4] = not count and state[2] == '0' and '1' or '0'
  if fence == '0' then
    local floor = tonumber(ARGV[3]) < 2 ^ 53 and ARGV[3] or 0 -- nobody was given more
    local now, least = redis.call('TIME'), math.max(state[1] or 0, floor) + 1
    local is_now = now[1] * 1000000 + now[2] > least  -- as nearly always, and then its text is cheap
    fence = is_now and string.format('%s%06d', now[1], now[2]) or string.format('%.0f', least)
  end
  redis.call('HSET', KEYS[2], 'fence', fence, 'owner', owner, 'clean', 0, 'abandoned', state[4], 'metadata', ARGV[4],
    'before', state[1] or 0)
  redis.call('PEXPIRE', KEYS[2], ttl > 86340000 and string.format('%.0f', ttl + 60000) or '86400000')
  state[1] = fence
end
if depth > tonumber(count or 0) then redis.call('HSET', KEYS[1], owner, depth) end
if ttl > pttl then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 'granted ' .. state[1] .. ' ' .. (ttl > pttl and ARGV[2] or pttl) .. ' ' .. state[4]
