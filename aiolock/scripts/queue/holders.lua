-- holders: how the owners of a name change and end. Stands behind name.lua.
-- A holder that minted a fence and ended otherwise than cleanly leaves the state dirty.
-- If a command is denied: a holder is deleted before its weight is given back, so at worst a name stays full for a day.
local function read(record) return string.match(record or '0 0 0 0 0', '^(%d+) (%d+) (%d) (%d+) (%d)$') end
local function weigh(name, owner, depth, weight, mints, fence, abandoned)
  local _, before = read(redis.call('HGET', name.holders, owner))
  name.used = name.used - before + weight
  local record = table.concat({ depth, weight, mints, fence, abandoned }, ' ')
  redis.call('HSET', name.holders, owner, record, 'used', text(name.used))
end
local function drop(name, owner, dirty)
  local _, weight, mints = read(redis.call('HGET', name.holders, owner))
  redis.call('HDEL', name.holders, owner)
  name.used = name.used - weight
  if name.used > 0 then redis.call('HSET', name.holders, 'used', text(name.used)) else redis.call('DEL', name.holders) end
  redis.call('ZREM', name.expiry, owner)
  if dirty and mints == '1' then
    name.dirty = '1'
    redis.call('HSET', name.state, 'dirty', '1')
    keep(name, 0)
  end
end
local function prune(name)
  for _, owner in ipairs(redis.call('ZRANGEBYSCORE', name.expiry, '-inf', NOW)) do drop(name, owner, true) end
end
local function extend(name, owner, ttl, fence)
  local expires = tonumber(redis.call('ZSCORE', name.expiry, owner) or NOW)
  if name.fence == 0 then redis.call('HSET', name.state, 'fence', fence, 'capacity', text(name.capacity)) end
  if NOW + ttl > expires then
    expires = NOW + ttl
    redis.call('ZADD', name.expiry, expires, owner)
  end
  keep(name, expires - NOW)
  return expires - NOW
end
local function gone(name, weight)
  return { 'missing', name.used + weight > name.capacity and 'taken_over' or 'deleted' }
end
