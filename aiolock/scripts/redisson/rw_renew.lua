-- rw_renew: extends many readers and writers; judges each by itself.
-- KEYS    hash, timeout of a reader, or the hash again; repeated
-- ARGV    field, ttl ms (0: only read); repeated
-- returns one answer per pair: pttl | 'deleted' | 'taken_over' | 'error …'
-- Never creates a hold and never shortens one.
-- If a command is denied: that hold's answer is the error, and the others are renewed.
local function renew(hash, own, field, ttl)
  local left = redis.call('PTTL', own)
  if not redis.call('HGET', hash, field) or left == -2 then
    return redis.call('EXISTS', hash) == 1 and 'taken_over' or 'deleted'
  end
  for _, key in ipairs({ hash, own }) do
    if tonumber(ttl) > redis.call('PTTL', key) then redis.call('PEXPIRE', key, ttl) end
  end
  return math.max(tonumber(ttl), left)
end
local answers = {}
for i = 1, #KEYS, 2 do
  local done, answer = pcall(renew, KEYS[i], KEYS[i + 1], ARGV[i], ARGV[i + 1])
  -- A caught error is a table on some servers, and text on others.
  answers[#answers + 1] = done and answer or 'error ' .. (type(answer) == 'table' and answer.err or answer)
end
return answers
