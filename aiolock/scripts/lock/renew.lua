-- renew: extends many holds; judges each key by itself.
-- KEYS    lock, state; repeated
-- ARGV    least state ttl ms; then owner, fence, ttl ms; repeated
-- returns one answer a pair: pttl | 'deleted' | 'taken_over' | 'error …'
-- Never creates a lock and never shortens one; a state that was lost under a live hold is written again.
-- If a command is denied: that key's answer is the error, and the other keys are renewed.
local function renew(lock, state, owner, fence, ttl)
  if not redis.call('HGET', lock, owner) then
    return redis.call('EXISTS', lock) == 1 and 'taken_over' or 'deleted'
  end
  local known = redis.call('HGET', state, 'fence')
  if known and known ~= fence then return 'taken_over' end
  local pttl = redis.call('PTTL', lock)
  if ttl > 0 and ttl > pttl then
    redis.call('PEXPIRE', lock, string.format('%.0f', ttl)) -- Redis 7.2.0 to 7.2.4 spell some numbers 1e+8
    pttl = ttl
  end
  if not known then redis.pcall('HSET', state, 'fence', fence, 'owner', owner, 'clean', 0, 'abandoned', 0) end
  redis.pcall('PEXPIRE', state, string.format('%.0f', math.max(ARGV[1], pttl + 60000)))
  return pttl
end
local answers = {}
for i = 1, #KEYS / 2 do
  local done, answer = pcall(
    renew, KEYS[2 * i - 1], KEYS[2 * i], ARGV[3 * i - 1], ARGV[3 * i], tonumber(ARGV[3 * i + 1])
  )
  -- A caught error is a table on some servers, and text on others.
  answers[i] = done and answer or 'error ' .. (type(answer) == 'table' and answer.err or answer)
end
return answers
