-- renew: extends many holds, and confirms those that were granted from a queue; judges each by itself.
-- KEYS    state; repeated
-- ARGV    owner, fence, ttl ms (0: only read), metadata ('': unchanged); repeated
-- returns one answer per state: pttl | 'deleted' | 'taken_over' | 'error …'
-- Never creates a hold and never shortens one. One whose time is over, but that no one took, continues with its fence.
-- If a command is denied: that hold's answer is the error, and the others are renewed.
local function renew(at, owner, fence, ttl, metadata)
  local name = read(at, redis.call('GET', KEYS[at]))
  if name.holder ~= owner or name.fence ~= fence then return name.live and 'taken_over' or 'deleted' end
  if ttl > 0 then
    if name.depth == '0' then name.depth = '1' end
    if metadata ~= '' then name.metadata = metadata end
    name.expires = math.max(name.expires, now + ttl)
    write(name)
  end
  return math.max(0, name.expires - now)
end
local answers = {}
for i = 1, #KEYS do
  local owner, fence, ttl, metadata = unpack(ARGV, 4 * i - 3, 4 * i)
  local done, answer = pcall(renew, i, owner, fence, tonumber(ttl), metadata)
  -- A caught error is a table on some servers, and text on others.
  answers[i] = done and answer or 'error ' .. (type(answer) == 'table' and answer.err or answer)
end
return answers
