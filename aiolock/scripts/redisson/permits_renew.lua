-- permits_renew: extends the permits of many owners; judges each by itself. Follows now.
-- KEYS    ids; repeated
-- ARGV    owner, ttl ms (0: only read), how many; repeated
-- returns one answer per owner: pttl | 'deleted' | 'error …'
-- Never creates a permit and never shortens one.
-- If a command is denied: that owner's answer is the error, and the others are renewed.
local function renew(ids, owner, ttl, count)
  local words, expires, left = {}, string.format('%.0f', now + ttl), math.huge
  for i = 1, count do
    words[2 * i - 1], words[2 * i] = expires, string.format('%s#%d', owner, i)
    left = math.min(left, (redis.call('ZSCORE', ids, words[2 * i]) or now) - now)
  end
  if left <= 0 then return 'deleted' end
  if ttl <= left then return left end
  redis.call('ZREM', ids, owner) -- of nothing: a server without memory only refuses a script's first write
  redis.call('ZADD', ids, unpack(words))
  return tonumber(ttl)
end
local answers = {}
for i, ids in ipairs(KEYS) do
  local at = 3 * i
  local done, answer = pcall(renew, ids, ARGV[at - 2], tonumber(ARGV[at - 1]), tonumber(ARGV[at]))
  -- A caught error is a table on some servers, and text on others.
  answers[i] = done and answer or 'error ' .. (type(answer) == 'table' and answer.err or answer)
end
return answers
