-- line: who waits for a name. Stands behind holders.lua.
-- ARGV    manager channel before and after the manager's id: the first two of every script that stands on this
-- If a command is denied: a waiter's place in the order comes before its record, and is void without it.
local function join(name, owner, ticket, rest)
  local place = waiter(name, owner)
  if not place then
    if ticket == '0' then name.serial = math.max(name.serial + 1, NOW_US, FIRST) end
    place = text(ticket == '0' and name.serial or math.max(ticket, FIRST))
    name.serial = math.max(name.serial, place) -- no later ticket is the same
    redis.call('ZADD', name.order, place, owner)
    name.waiters, name.grows, name.joined = name.waiters + 1, true, true
  end
  write(name, owner, 'w ' .. place .. ' ' .. rest)
end
local function leave(name, owner)
  if waiter(name, owner) then name.waiters = name.waiters - 1 end
  if not holder(name, owner) then remove(name, owner) end
end
local function tell(name, owner, ...)
  name.told[#name.told + 1] = { ARGV[1] .. string.match(owner, '^[^:]*') .. ARGV[2], table.concat({ ... }, ' ') }
end
local function gone(name, weight)
  return name.used > 0 and name.used + weight > name.capacity and 'taken_over' or 'deleted'
end
