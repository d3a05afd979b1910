-- holders: how the owners of a name change and end. Stands behind name.lua.
-- A holder that minted a fence and ended otherwise than cleanly leaves the state dirty.
-- If a command is denied: a holder is deleted before its weight is given back, so at worst a name stays full for a day.
local function read(name, owner)
  local record = name.used > 0 and redis.call('HGET', name.holders, owner) or '0 0 0 0 0'
  return string.match(record, '^(%d+) (%d+) (%d) (%d+) (%d)$')
end
local function drop(name, owner, weight, dirty)
  name.used = name.used - weight
  if name.used > 0 then
    redis.call('HDEL', name.holders, owner)
    redis.call('HSET', name.holders, 'used', name.used)
    redis.call('ZREM', name.expiry, owner)
  else
    redis.call('DEL', name.holders, name.expiry)
  end
  if dirty then
    name.dirty = '1'
    redis.call('HSET', name.state, 'dirty', '1')
    keep(name.state, 0)
  end
end
local function prune(name)
  local over = name.used > 0 and redis.call('ZRANGEBYSCORE', name.expiry, '-inf', NOW) or {}
  for _, owner in ipairs(over) do
    local _, weight, mints = read(name, owner)
    drop(name, owner, weight, mints == '1')
  end
end
local function extend(name, owner, ttl, fence)
  -- PEXPIRE before ZADD: at the memory limit the first write decides.
  for _, key in ipairs({ name.holders, name.expiry, name.state }) do keep(key, ttl) end
  local expires = math.max(NOW + ttl, tonumber(redis.call('ZSCORE', name.expiry, owner) or 0))
  redis.call('ZADD', name.expiry, expires, owner)
  if tonumber(fence) > name.fence then
    redis.call('HSET', name.state, 'fence', fence, 'capacity', name.capacity)
    keep(name.state, ttl)
  end
  return expires - NOW
end
