-- name: one name of the family as its scripts see it, and what is granted on it. Stands in front of each of them.
-- KEYS    five a name: holders (HASH owner -> record, and 'used' -> weight held), expiry (ZSET owner -> server ms),
--         queue (ZSET owner -> ticket), waiting (HASH owner -> entry), state (HASH)
-- A record is 'depth weight mints fence abandoned', an entry 'alive-until brief weight mints floor ttl metadata'.
-- If a command is denied: the state is written before the expiry, that before the holder: nobody holds for ever.
local DAY, GRACE, time = 24 * 3600 * 1000, 60 * 1000, redis.call('TIME')
local NOW_US, NOW = time[1] * 1000000 + time[2], time[1] * 1000 + math.floor(time[2] / 1000)
local function text(number) return string.format('%.0f', number) end
local function open(first, capacity)
  local holders, expiry, queue, waiting, state = unpack(KEYS, first, first + 4)
  local known = redis.call('HMGET', state, 'fence', 'serial', 'dirty', 'capacity', 'metadata', 'resized')
  return {
    holders = holders, expiry = expiry, queue = queue, waiting = waiting, state = state,
    fence = tonumber(known[1] or 0), serial = tonumber(known[2] or 0), dirty = known[3] or '0',
    capacity = tonumber(known[4] or capacity), metadata = known[5] or '', resized = known[6],
    used = tonumber(redis.call('HGET', holders, 'used') or 0), head = redis.call('ZRANGE', queue, 0, 0)[1]
  }
end
local function keep(key, ttl, fresh)
  local before = fresh and 0 or redis.call('PTTL', key)
  redis.call('PEXPIRE', key, math.max(before, DAY, ttl + GRACE))
end
local function write(name, owner, ...) -- a record's parts, as text
  redis.call('HSET', name.holders, owner, table.concat({ ... }, ' '), 'used', name.used)
end
local function grant(name, owner, ttl, weight, mints, floor, metadata)
  local abandoned, fresh = name.dirty, name.used <= 0
  name.serial, name.used, name.metadata = math.max(name.serial + 1, NOW_US), name.used + weight, metadata
  if mints == '1' or name.fence == 0 then name.fence = math.max(name.fence + 1, tonumber(floor) + 1, NOW_US) end
  if mints == '1' then name.dirty = '0' end
  local token = text(name.fence)
  redis.call('HSET', name.state, 'fence', token, 'serial', name.serial, 'dirty', name.dirty, 'capacity', name.capacity,
    'metadata', metadata)
  keep(name.state, ttl, fresh)
  redis.call('ZADD', name.expiry, NOW + ttl, owner)
  keep(name.expiry, ttl, fresh)
  write(name, owner, '1', weight, mints, token, abandoned)
  keep(name.holders, ttl, fresh)
  return { 'granted', token, ttl, abandoned, name.capacity }
end
