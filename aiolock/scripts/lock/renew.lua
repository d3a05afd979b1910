-- renew: extends many holds; judges each key by itself.
-- KEYS    lock, state; repeated
-- ARGV    state ttl ms; then owner, fence, ttl ms; repeated
-- returns one answer a pair: pttl | 'deleted' | 'taken_over' | 'error …'
-- Never creates a lock and never shortens one; a state that was lost under a live hold is written again.
-- If a command is denied: that key's answer is the error, and the other keys are renewed.
local function renew(lock, state, owner, fence, ttl)
  local count = redis.pcall('HGET', lock, owner)
  if type(count) == 'table' then return 'error ' .. count.err end
  if not count then return redis.call('EXISTS', lock) == 1 and 'taken_over' or 'deleted' end
  local known = redis.pcall('HGET', state, 'fence')
  if type(known) == 'table' then return 'error ' .. known.err end
  if known and known ~= fence then return 'taken_over' end
  local pttl = redis.call('PTTL', lock)
  if ttl > pttl then
    local done = redis.pcall('PEXPIRE', lock, ttl)
    if type(done) == 'table' then return 'error ' .. done.err end
    pttl = ttl
  end
  if not known then redis.pcall('HSET', state, 'fence', fence, 'owner', owner, 'clean', 0, 'abandoned', 0) end
  redis.pcall('PEXPIRE', state, ARGV[1])
  return pttl
end
local answers = {}
for i = 1, #KEYS / 2 do
  answers[i] = renew(KEYS[2 * i - 1], KEYS[2 * i], ARGV[3 * i - 1], ARGV[3 * i], tonumber(ARGV[3 * i + 1]))
end
return answers
