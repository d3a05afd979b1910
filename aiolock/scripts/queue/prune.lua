-- prune: ends the holders of a name whose time is over. Follows heal.lua.
-- If there may be more than `room` allows, `cut` says so.
-- If a command is denied: it reads only, so nothing was changed.
local function prune(state)
  if state.holders == 0 or state.pruned then return end
  state.pruned = true
  local first = redis.call('ZRANGE', state.order, 0, 0, 'WITHSCORES')[2]
  if not first or tonumber(first) > clock(state) then return end
  local over = redis.call('ZRANGEBYSCORE', state.order, '-inf', text(clock(state)), 'LIMIT', 0, room)
  fetch(state, over)
  room, state.cut = room - #over, #over == room
  for _, owner in ipairs(over) do
    local _, weight, mints = holder(state, owner)
    if weight and not (state.scores and state.scores[owner]) then drop(state, owner, weight, mints == '1') else leave(state, owner) end
  end
end
