-- info: says who holds each of the names; reads only.
-- KEYS    lock, state; repeated
-- returns one answer a name: {} | {owner, depth, pttl, fence, metadata}
-- If a command is denied: nothing was changed.
local answers = {}
for i = 1, #KEYS, 2 do
  local held, answer = redis.call('HGETALL', KEYS[i]), {}
  if #held > 0 then
    local state = redis.call('HMGET', KEYS[i + 1], 'fence', 'metadata')
    answer = {held[1], tonumber(held[2]), redis.call('PTTL', KEYS[i]), state[1] or '0', state[2] or ''}
  end
  answers[#answers + 1] = answer
end
return answers
