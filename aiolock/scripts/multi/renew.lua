-- renew: extends many holds of several names each; a hold is lost if one of its names is.
-- KEYS    lock, state; repeated
-- ARGV    least state ttl ms; then owner, fence, ttl ms, how many names; repeated
-- returns one answer a hold: pttl | 'deleted' | 'taken_over' | 'error …'
-- Never creates a lock and never shortens one; a state that was lost under a live hold is written again.
-- If a command is denied: that hold's answer is the error, and the other names and holds are renewed.
local function renew(at, owner, fence, ttl)
  local one, state = part(at, owner), KEYS[at + 1]
  if not one.count then return one.gone end
  if one.fence and one.fence ~= fence then return 'taken_over' end
  if ttl > one.pttl and ttl > 0 then
    redis.call('PEXPIRE', KEYS[at], string.format('%.0f', ttl)) -- Redis 7.2.0 to 7.2.4 write some numbers as 1e+8
    one.pttl = ttl
  end
  if not one.fence then redis.pcall('HSET', state, 'fence', fence, 'owner', owner, 'clean', 0, 'abandoned', 0) end
  redis.pcall('PEXPIRE', state, string.format('%.0f', math.max(ARGV[1], one.pttl + 60000)))
  return one.pttl
end
local answers, at = {}, 1
for hold = 2, #ARGV, 4 do
  local pttl, gone, failed = math.huge, nil, nil
  for _ = 1, tonumber(ARGV[hold + 3]) do
    local done, answer = pcall(renew, at, ARGV[hold], ARGV[hold + 1], tonumber(ARGV[hold + 2]))
    at = at + 2
    if not done then
      -- A caught error is a table on some servers, and text on others.
      failed = failed or 'error ' .. (type(answer) == 'table' and answer.err or answer)
    elseif type(answer) == 'string' then
      gone = worse(gone, answer)
    else
      pttl = math.min(pttl, answer)
    end
  end
  answers[#answers + 1] = gone or failed or pttl
end
return answers
