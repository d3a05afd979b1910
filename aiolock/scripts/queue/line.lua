-- line: who waits for a name, and who comes next. Stands behind holders.lua.
-- ARGV    manager channel before and after the manager's id: the first two of every script that stands on this
-- Tells a manager 'granted <owner> <serial> <fence> <ttl ms> <abandoned> <capacity>'; brief if nobody hears it.
-- If a command is denied: one leaves the queue before the grant, so at worst a waiter finds itself gone and comes back.
local function leave(name, owner)
  if not name.head or redis.call('ZREM', name.queue, owner) == 0 then return end
  redis.call('HDEL', name.waiting, owner)
  name.head = redis.call('ZRANGE', name.queue, 0, 0)[1]
end
local function join(name, owner, ticket, liveness, entry)
  if ticket == '0' then
    ticket = math.max(name.serial + 1, NOW_US)
    name.serial = ticket
    redis.call('HSET', name.state, 'serial', ticket)
    keep(name.state, 0)
  end
  redis.call('HSET', name.waiting, owner, table.concat({ text(NOW + liveness), unpack(entry) }, ' '))
  redis.call('ZADD', name.queue, ticket, owner)
  for _, key in ipairs({ name.waiting, name.queue }) do keep(key, liveness) end
  name.head = redis.call('ZRANGE', name.queue, 0, 0)[1]
end
local function settle(name, me)
  prune(name)
  while name.head do
    local head = name.head
    local entry = redis.call('HGET', name.waiting, head) or '0 0 0 0 0 0 '
    local alive, brief, weight, mints, floor, ttl, metadata = entry:match('^(%d+) (%d+) (%d+) (%d) (%d+) (%d+) (.*)$')
    local live = tonumber(alive) > NOW and tonumber(weight) <= name.capacity
    if live and name.used + weight > name.capacity then return end
    leave(name, head)
    if live then
      local channel = ARGV[1] .. string.match(head, '^[^:]*') .. ARGV[2]
      local hears = head == me and 1 or redis.pcall('PUBSUB', 'NUMSUB', channel)[2] or 0
      local granted = grant(name, head, tonumber(hears > 0 and ttl or brief), weight, mints, floor, metadata)
      local told = { 'granted', head, text(name.serial), granted[2], granted[3], granted[4], text(name.capacity) }
      if head ~= me then redis.pcall('PUBLISH', channel, table.concat(told, ' ')) end
    end
  end
end
local function gone(name, weight) return name.used + weight > name.capacity and 'taken_over' or 'deleted' end
