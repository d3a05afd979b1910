-- renew: extends many holds of several names each; a hold is lost if one of its names is.
-- KEYS    state; repeated
-- ARGV    owner, fence, ttl ms (0: only read), how many names; repeated
-- returns one answer per hold: pttl | 'deleted' | 'taken_over' | 'error …'
-- An owner whose names are in several slots has one fence for all, and raises each name's to that.
-- Never creates a hold and never shortens one. One whose time is over, but that no one took, continues with its fence.
-- If a command is denied: that hold's answer is the error, and the other names and holds are renewed.
local function renew(at, owner, fence, ttl)
  local name = read(at)
  if name.owner ~= owner or tonumber(name.fence) > tonumber(fence) then return name.live and 'taken_over' or 'deleted' end
  if ttl > 0 then
    name.fence, name.expires = fence, math.max(name.expires, now + ttl)
    write(name)
  end
  return math.max(0, name.expires - now)
end
local answers, at = {}, 1
for hold = 1, #ARGV, 4 do
  local pttl, gone, failed = math.huge, nil, nil
  for _ = 1, tonumber(ARGV[hold + 3]) do
    local done, answer = pcall(renew, at, ARGV[hold], ARGV[hold + 1], tonumber(ARGV[hold + 2]))
    at = at + 1
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
