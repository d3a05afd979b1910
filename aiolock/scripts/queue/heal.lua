-- heal: opens a name; where its counts disagree, goes by the records in the hash. Stands behind line.lua.
-- The order was evicted, or a command was denied. A holder whose end is unknown has its ttl from now.
-- If a command is denied: the next request on the name heals it.
local function heal(name)
  local all = redis.call('HGETALL', name.key)
  name.used, name.holders, name.waiters, name.joined = 0, 0, 0, true
  redis.call('PEXPIRE', name.key, DAY) -- at the memory limit the first write decides
  for i = 1, #all, 2 do
    local owner, record = all[i], all[i + 1]
    local number, weight = record:match('^w (%d+)'), record:match('^h %d+ (%d+)')
    if number then
      name.waiters = name.waiters + 1
      redis.call('ZADD', name.order, number, owner)
    elseif weight then
      name.used, name.holders = name.used + weight, name.holders + 1
      redis.call('ZADD', name.order, 'NX', text(NOW + name.longest), owner)
    elseif owner ~= 'state' then
      redis.pcall('HDEL', name.key, owner)
    end
  end
end
local function open(k, capacity, owners)
  local name = names[KEYS[k]]
  if name then return name end
  name = look(k, capacity, owners)
  local known = name.holders + name.waiters
  if redis.call('HLEN', name.key) ~= known + (name.fresh and 0 or 1)
    or known > 0 and redis.call('ZCARD', name.order) < known
    or name.waiters > 0 and redis.call('ZCOUNT', name.order, FIRST, '+inf') < name.waiters then heal(name) end
  names[KEYS[k]], names[#names + 1] = name, name
  return name
end
