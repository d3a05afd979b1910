-- release: lowers an owner's depth; at 0 frees the lock and tells those who wait.
-- KEYS    lock, state, tombstone of the owner
-- ARGV    owner, clean state ttl ms, channel; if not 'clean', 0, 0: ending ('clean', 'undone', 'dirty'), depth left,
--         tombstone ttl ms (0: none)
-- returns 'released <fence>' | {'kept', pttl} | {'missing', 'deleted' or 'taken_over'}
-- 'undone' restores the cleanness it found, 'dirty' leaves the lock marked as abandoned. A copy of a clean release
-- answers 'released'.
-- If a command is denied: HDEL comes first, so a denied HDEL changes nothing; what follows it is tried, never needed.
local owner, ending, left = ARGV[1], ARGV[4] or 'clean', tonumber(ARGV[5] or 0)
local count = left > 0 and redis.call('HGET', KEYS[1], owner)
if count then
  local pttl = redis.call('PTTL', KEYS[1])
  -- PEXPIRE before HSET: at the memory limit the first write decides.
  if pttl > 0 then redis.call('PEXPIRE', KEYS[1], string.format('%.0f', pttl)) end
  if left < tonumber(count) then redis.call('HSET', KEYS[1], owner, left) end
  return {'kept', pttl}
end
local state = redis.call('HMGET', KEYS[2], 'fence', 'owner')
local fence, last = state[1] or '0', state[2] == owner
local answer = 'released ' .. fence
if redis.call('HDEL', KEYS[1], owner) == 1 then
  if last and (ending == 'clean' or (ending == 'undone' and redis.pcall('HGET', KEYS[2], 'abandoned') == '0')) then
    redis.pcall('HSET', KEYS[2], 'clean', 1)
    redis.pcall('PEXPIRE', KEYS[2], ARGV[2])
  end
  redis.pcall('PUBLISH', ARGV[3], owner .. ' ' .. fence)
elseif left > 0 or not last or redis.call('HGET', KEYS[2], 'clean') ~= '1' then
  answer = {'missing', redis.call('EXISTS', KEYS[1]) == 1 and 'taken_over' or 'deleted'}
end
if left == 0 and (ARGV[6] or '0') ~= '0' then redis.pcall('SET', KEYS[3], 1, 'PX', ARGV[6]) end
return answer
