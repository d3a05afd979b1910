-- release: lowers an owner's depth; at 0 frees the lock and tells those who wait.
-- KEYS    lock, state, tombstone of the owner
-- ARGV    owner, depth left, ending ('clean', 'undone', 'dirty'), clean state ttl ms, tombstone ttl ms (0: none), channel
-- returns {'released', fence} | {'kept', pttl} | {'missing', 'deleted' or 'taken_over'}
-- 'undone' restores the cleanness it found, 'dirty' leaves the lock marked as abandoned. A copy of a clean release
-- answers 'released'.
-- If a command is denied: DEL comes first, so a denied DEL changes nothing; what follows it is tried, never needed.
local owner, left, ending = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local count = redis.call('HGET', KEYS[1], owner)
if count and left > 0 then
  local pttl = redis.call('PTTL', KEYS[1])
  -- PEXPIRE before HSET: at the memory limit the first write decides.
  if pttl > 0 then redis.call('PEXPIRE', KEYS[1], pttl) end
  if left < tonumber(count) then redis.call('HSET', KEYS[1], owner, left) end
  return {'kept', pttl}
end
local state = redis.call('HMGET', KEYS[2], 'fence', 'owner', 'clean', 'abandoned')
local answer
if count then
  redis.call('DEL', KEYS[1])
  if state[2] == owner and (ending == 'clean' or (ending == 'undone' and state[4] == '0')) then
    redis.pcall('HSET', KEYS[2], 'clean', 1)
    redis.pcall('PEXPIRE', KEYS[2], ARGV[4])
  end
  redis.pcall('PUBLISH', ARGV[6], owner .. ' ' .. (state[1] or '0'))
  answer = {'released', state[1] or '0'}
elseif left == 0 and state[2] == owner and state[3] == '1' then
  answer = {'released', state[1]}
else
  answer = {'missing', redis.call('EXISTS', KEYS[1]) == 1 and 'taken_over' or 'deleted'}
end
if left == 0 and ARGV[5] ~= '0' then redis.pcall('SET', KEYS[3], 1, 'PX', ARGV[5]) end
return answer
