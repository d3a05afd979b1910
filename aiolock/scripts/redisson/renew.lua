-- renew: extends many holds; judges each by itself.
-- KEYS    hash; repeated
-- ARGV    owner, ttl ms (0: only read); repeated
-- returns one answer per hash: pttl | 'deleted' | 'taken_over' | 'error …'
-- Never creates a hold and never shortens one.
-- If a command is denied: that hold's answer is the error, and the others are renewed.
local function renew(hash, owner, ttl)
  local pttl = redis.call('PTTL', hash)
  if not redis.call('HGET', hash, owner) then return pttl == -2 and 'deleted' or 'taken_over' end
  if tonumber(ttl) <= pttl then return pttl end
  redis.call('PEXPIRE', hash, ttl)
  return tonumber(ttl)
end
local answers = {}
for i, hash in ipairs(KEYS) do
  local done, answer = pcall(renew, hash, ARGV[2 * i - 1], ARGV[2 * i])
  -- A caught error is a table on some servers, and text on others.
  answers[i] = done and answer or 'error ' .. (type(answer) == 'table' and answer.err or answer)
end
return answers
