-- turn: who comes next. Stands behind prune.lua.
-- Tells a manager 'granted <owner> <serial> <fence> <ttl ms> <abandoned> <capacity>'; provisional if nobody hears it.
-- Where there is no `room` for more, `cut` says so, and whoever is first then is told 'refresh <owner>': its request goes on.
-- If a command is denied: it reads only, so nothing was changed.
local heard = {}
local function admit(name, head, asks, provisional, ttl, ...)
  local channel = ARGV[1] .. string.match(head, '^[^:]*') .. ARGV[2]
  heard[channel] = heard[channel] or redis.pcall('PUBSUB', 'NUMSUB', channel)[2] or 0
  local lasts = (asks or heard[channel] > 0) and ttl or provisional
  local granted = grant(name, head, tonumber(lasts), ...)
  if asks then return end
  tell(name, head, 'granted', head, (latest(name)), granted[2], lasts, granted[4], text(name.capacity))
end
local function settle(name)
  local heads, step = { 1 }, 1
  prune(name)
  while heads[1] and name.waiters > 0 and name.shut <= NOW do
    heads = redis.call('ZRANGEBYSCORE', name.order, FIRST, '+inf', 'LIMIT', name.at or 0, math.min(step, room + 1))
    fetch(name, heads)
    for _, head in ipairs(heads) do
      if name.waiters == 0 then return end
      local _, alive, provisional, weight, mints, floor, ttl, metadata = waiter(name, head)
      local live = alive and tonumber(alive) > NOW and tonumber(weight) <= name.capacity
      local full = live and name.used + weight > name.capacity
      local asks = name.asking and name.asking[head]
      name.cut = name.cut or (room == 0 and not full)
      if name.cut and (full or room == 0) and not asks then tell(name, head, 'refresh', head) end
      if full or room == 0 then return end
      name.at, room, step = (name.at or 0) + 1, room - 1, 2 * step
      leave(name, head)
      if live then admit(name, head, asks, provisional, ttl, weight, mints, floor, metadata) end
    end
  end
end
