-- turn: who comes next. Follows prune.lua.
-- Tells a manager 'admitted <owner> <serial> <fence> <ms from its last heartbeat> <abandoned> <capacity> <key>'.
-- Who is told may be frozen, so that grant lasts only as long as its owner counts as alive, until it is renewed.
-- If `room` is used up, `cut` says so, and the first in line is told 'refresh <owner>': its request continues the work.
-- If a command is denied: it reads only, so nothing was changed.
local function admit(state, head, asks, alive, lasts, ttl, ...)
  local granted = grant(state, head, '0', asks and tonumber(ttl) or math.min(ttl, alive - clock(state)), ...)
  state.longest = math.max(state.longest, ttl)
  if asks then return end
  tell(state, head, 'admitted', head, state.serial, granted[2], lasts, granted[4], text(state.capacity), state.key)
end
local function settle(state)
  local heads, step = { 1 }, 1
  prune(state)
  while heads[1] and state.waiters > 0 and state.shut <= clock(state) do
    heads = redis.call('ZRANGEBYSCORE', state.order, FIRST, '+inf', 'LIMIT', state.at or 0, math.min(step, room + 1))
    fetch(state, heads)
    for _, head in ipairs(heads) do
      if state.waiters == 0 then return end
      local _, alive, lasts, weight, mints, floor, ttl, process = waiter(state, head)
      local live = alive and tonumber(alive) > clock(state) and tonumber(weight) <= state.capacity
      local full = live and state.used + weight > state.capacity
      local asks = state.asking and state.asking[head]
      state.cut = state.cut or (room == 0 and not full)
      if state.cut and (full or room == 0) and not asks then tell(state, head, 'refresh', head) end
      if full or room == 0 then return end
      state.at, room, step = (state.at or 0) + 1, room - 1, 2 * step
      leave(state, head)
      if live then admit(state, head, asks, alive, lasts, ttl, weight, mints, floor, process) end
    end
  end
end
