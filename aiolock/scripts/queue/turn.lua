-- turn: who comes next. Follows prune.lua.
-- Tells a manager 'admitted <owner> <serial> <fence> <ttl ms> <abandoned> <capacity> <key>'; provisional if no one
-- hears it.
-- If `room` is used up, `cut` says so, and the first in line is told 'refresh <owner>': its request continues the work.
-- If a command is denied: it reads only, so nothing was changed.
local heard = {}
local function admit(state, head, asks, provisional, ttl, ...)
  local channel = ARGV[1] .. string.match(head, '^[^:]*') .. ARGV[2]
  heard[channel] = heard[channel] or redis.pcall('PUBSUB', 'NUMSUB', channel)[2] or 0
  local lasts = (asks or heard[channel] > 0) and ttl or provisional
  local granted = grant(state, head, '0', tonumber(lasts), ...)
  if asks then return end
  tell(state, head, 'admitted', head, (latest(state)), granted[2], lasts, granted[4], text(state.capacity), state.key)
end
local function settle(state)
  local heads, step = { 1 }, 1
  prune(state)
  while heads[1] and state.waiters > 0 and state.shut <= NOW do
    heads = redis.call('ZRANGEBYSCORE', state.order, FIRST, '+inf', 'LIMIT', state.at or 0, math.min(step, room + 1))
    fetch(state, heads)
    for _, head in ipairs(heads) do
      if state.waiters == 0 then return end
      local _, alive, provisional, weight, mints, floor, ttl, metadata = waiter(state, head)
      local live = alive and tonumber(alive) > NOW and tonumber(weight) <= state.capacity
      local full = live and state.used + weight > state.capacity
      local asks = state.asking and state.asking[head]
      state.cut = state.cut or (room == 0 and not full)
      if state.cut and (full or room == 0) and not asks then tell(state, head, 'refresh', head) end
      if full or room == 0 then return end
      state.at, room, step = (state.at or 0) + 1, room - 1, 2 * step
      leave(state, head)
      if live then admit(state, head, asks, provisional, ttl, weight, mints, floor, metadata) end
    end
  end
end
