-- slots: the numbers of the permits that a holder has, for those that want to know them. Follows turn.lua.
-- They end the first line of what it says of itself, as in 'web-3:4711 #0,2'; where none follow, they are wanted.
-- If a command is denied: it reads only, so nothing was changed.
local function numbers(told) return string.match(told, '^[^\n]* #([%d,]*)') end
local function numbered(told, list)
  local line, rest = string.match(told, '^([^\n]*)(.*)$')
  return (string.match(line, '^(.*) #[%d,]*$') or line) .. ' #' .. list .. rest
end
-- The lowest `most` of them stay: so high ones are the first to go when there are fewer permits.
local function fewer(told, most)
  local list, kept = numbers(told), {}
  for slot in string.gmatch(list or '', '%d+') do kept[#kept + 1] = #kept < most and slot or nil end
  return list and numbered(told, table.concat(kept, ',')) or told
end
local function lowest(state, most)
  local owners, taken, free, slot = redis.call('ZRANGEBYSCORE', state.order, '-inf', '(' .. FIRST), {}, {}, 0
  for i = 1, #owners, 1000 do fetch(state, { unpack(owners, i, math.min(i + 999, #owners)) }) end
  for _, record in pairs(state.records) do
    for one in string.gmatch(string.match(record, '^holds [^\n]* #([%d,]+)') or '', '%d+') do taken[tonumber(one)] = true end
  end
  while #free < most do free[#free + 1], slot = not taken[slot] and slot or nil, slot + 1 end
  return free
end
-- Gives an owner the lowest that are free, unless it has its own; and tells them behind the `answer`.
local function assign(state, owner, answer)
  local depth, weight, mints, fence, abandoned, told = holder(state, owner)
  answer[6] = numbers(told)
  if answer[6] ~= '' then return answer end
  answer[6] = table.concat(lowest(state, tonumber(weight)), ',')
  hold(state, owner, depth, weight, mints, fence, abandoned, numbered(told, answer[6]))
  return answer
end
-- Who was let in before there were fewer permits, and now would get a higher number, waits on.
local function unseat(state, owner)
  local depth, weight, mints, _, abandoned, told = holder(state, owner)
  if depth ~= '0' or numbers(told) ~= '' or state.used <= state.capacity then return end
  local free = lowest(state, tonumber(weight))
  if free[#free] >= state.capacity then drop(state, owner, weight, mints == '1' and abandoned == '1') end
end
