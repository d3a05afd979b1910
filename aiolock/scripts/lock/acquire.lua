-- acquire: grants the lock to an owner, or says who has it.
-- KEYS    lock, state, tombstone of the owner, mark of those who poll
-- ARGV    owner, ttl ms, depth, fence (0: not nested), floor, metadata, state ttl ms, mark ttl ms (0: does not poll)
-- returns {'granted', fence, pttl, abandoned} | {'refused', pttl, fence, metadata}
--         | {'lost', 'deleted' or 'taken_over'} | {'finished'}
-- Only depth 1 creates, nothing shortens, and a copy of the request reads its own grant.
-- If a command is denied: the state is written before the lock, so at worst a fence is left that nobody holds.
local owner, ttl, depth, fence = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
if redis.call('EXISTS', KEYS[3]) == 1 then return {'finished'} end
local pttl = redis.call('PTTL', KEYS[1])
local state = redis.call('HMGET', KEYS[2], 'fence', 'owner', 'clean', 'abandoned', 'metadata')
local count = pttl ~= -2 and redis.call('HGET', KEYS[1], owner)
if not count and pttl ~= -2 then
  if depth > 1 then return {'lost', 'taken_over'} end
  if ARGV[8] ~= '0' then redis.pcall('SET', KEYS[4], 1, 'PX', ARGV[8]) end
  return {'refused', pttl, state[1] or '0', state[5] or ''}
end
if not count and depth > 1 then return {'lost', 'deleted'} end
local known = count and state[1]
if known and (state[2] ~= owner or (fence ~= '0' and state[1] ~= fence)) then return {'lost', 'taken_over'} end
local abandoned = state[4]
if not known then
  abandoned = (not count and state[3] == '0') and '1' or '0'
  if fence == '0' then
    local now = redis.call('TIME')
    local least = math.max(tonumber(state[1] or 0), tonumber(ARGV[5])) + 1
    fence = string.format('%.0f', math.max(least, now[1] * 1000000 + now[2]))
  end
  redis.call('HSET', KEYS[2], 'fence', fence, 'owner', owner, 'clean', 0, 'abandoned', abandoned, 'metadata', ARGV[6],
    'before', state[1] or 0)
  redis.call('PEXPIRE', KEYS[2], ARGV[7])
  state[1] = fence
end
if depth > tonumber(count or 0) then redis.call('HSET', KEYS[1], owner, depth) end
if ttl > pttl then
  redis.call('PEXPIRE', KEYS[1], ttl)
  pttl = ttl
end
return {'granted', state[1], pttl, abandoned}
