-- info: returns who holds each of the names; reads only.
-- KEYS    state; repeated
-- returns one answer per name: {} | {owner, depth, pttl, fence, metadata}
-- If a command is denied: nothing was changed.
local answers = {}
for at = 1, #KEYS do
  local name, answer = read(at), {}
  if name.live then
    answer = { name.owner, math.max(1, name.depth), name.expires - now, name.fence, name.process }
  end
  answers[at] = answer
end
return answers
