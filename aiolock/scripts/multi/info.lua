-- info: returns who holds each of the names; reads only.
-- KEYS    state; repeated
-- returns one answer per name: {} | {owner, depth, pttl, fence, metadata}
-- If a command is denied: nothing was changed.
local answers = {}
for at = 1, #KEYS do
  local name, answer = read(at, redis.call('GET', KEYS[at])), {}
  if name.live then
    answer = { name.holder, math.max(1, name.depth), name.expires - now, name.fence, name.metadata }
  end
  answers[at] = answer
end
return answers
