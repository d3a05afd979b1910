-- prune: ends those who hold a name and whose time is over. Stands behind heal.lua.
-- If there may be more than there is `room` for, `cut` says so.
-- If a command is denied: it reads only, so nothing was changed.
local function prune(name)
  if name.holders == 0 or name.pruned then return end
  name.pruned = true
  local first = redis.call('ZRANGE', name.order, 0, 0, 'WITHSCORES')[2]
  if not first or tonumber(first) > NOW then return end
  local over = redis.call('ZRANGEBYSCORE', name.order, '-inf', text(NOW), 'LIMIT', 0, room)
  fetch(name, over)
  room, name.cut = room - #over, #over == room
  for _, owner in ipairs(over) do
    local _, weight, mints = holder(name, owner)
    if weight and not (name.scores and name.scores[owner]) then drop(name, owner, weight, mints == '1') else leave(name, owner) end
  end
end
