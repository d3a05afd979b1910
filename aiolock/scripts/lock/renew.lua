-- renew: extends many holds; judges each by itself.
-- KEYS    state; repeated
-- ARGV    owner, fence, ttl ms (0: only read); repeated
-- returns one answer per state: pttl | 'deleted' | 'taken_over' | 'error …'
-- Never creates a hold and never shortens one. One whose time is over, but that no one took, continues with its fence.
-- If a command is denied: that hold's answer is the error, and the others are renewed.
local function renew(at, owner, fence, ttl)
  local name = read(at)
  if name.owner ~= owner or name.fence ~= fence then return name.live and 'taken_over' or 'deleted' end
  if ttl > 0 then
    name.expires = math.max(name.expires, now + ttl)
    write(name)
  end
  return math.max(0, name.expires - now)
end
local answers = {}
for i = 1, #KEYS do
  local owner, fence, ttl = unpack(ARGV, 3 * i - 2, 3 * i)
  local done, answer = pcall(renew, i, owner, fence, tonumber(ttl))
  -- A caught error is a table on some servers, and text on others.
  answers[i] = done and answer or 'error ' .. (type(answer) == 'table' and answer.err or answer)
end
return answers
