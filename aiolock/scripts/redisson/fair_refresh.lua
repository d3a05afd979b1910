-- fair_refresh: says of many owners that they still wait for a fair lock. Follows line.
-- KEYS    hash, list, deadlines; repeated
-- ARGV    owner, ms that it may wait without a heartbeat; repeated
-- returns for each 'granted' (it may ask) | 'queued …' as fair_acquire | 'gone' | 'error …'
-- If a command is denied: that one's answer is the error; or see line.
local function refresh(owner, wait)
  local places, rank = line(owner)
  if not rank then return 'gone' end
  local pttl = redis.call('PTTL', KEYS[at + 1])
  if rank == 1 and pttl == -2 then return 'granted' end
  stay(places, rank, wait, pttl)
  return string.format('queued %d %s', rank, taken(places, pttl))
end
local answers = {}
for i = 1, #ARGV, 2 do
  local done, answer = pcall(refresh, ARGV[i], tonumber(ARGV[i + 1]))
  -- A caught error is a table on some servers, and text on others.
  answers[#answers + 1] = done and answer or 'error ' .. (type(answer) == 'table' and answer.err or answer)
  at = at + 3
end
return answers
