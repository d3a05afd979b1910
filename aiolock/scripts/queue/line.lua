-- line: who waits for a name. Stands behind holders.lua.
-- ARGV    manager channel before and after the manager's id: the first two of every script that stands on this
-- If a command is denied: a waiter's number in the order comes before its record, and is void without it.
local function join(name, owner, number, rest)
  local known = waiter(name, owner)
  if not known then
    local serial, fence, metadata = latest(name)
    known = text(number == '0' and math.max(serial + 1, NOW_US, FIRST) or math.max(number, FIRST))
    name.last = text(math.max(serial, known)) .. ' ' .. fence .. ' ' .. metadata -- no later number is the same
    redis.call('ZADD', name.order, known, owner)
    name.waiters, name.grows, name.joined = name.waiters + 1, true, true
  end
  name.asking = name.asking or {}
  name.asking[owner] = true
  write(name, owner, 'w ' .. known .. ' ' .. rest)
end
local function leave(name, owner)
  if waiter(name, owner) then name.waiters = name.waiters - 1 end
  if not holder(name, owner) then remove(name, owner) end
end
local function tell(name, owner, ...)
  local told = name.told or {}
  name.told, told[#told + 1] = told, { ARGV[1] .. string.match(owner, '^[^:]*') .. ARGV[2], table.concat({ ... }, ' ') }
end
local function gone(name, weight)
  return name.used > 0 and name.used + weight > name.capacity and 'taken_over' or 'deleted'
end
