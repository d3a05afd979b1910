-- name: one name of the family as its scripts see it, and what is granted on it. Stands in front of each of them.
-- KEYS    five a name: holders (HASH owner -> record, and 'used' -> weight held), expiry (ZSET owner -> server ms),
--         queue (ZSET owner -> ticket), waiting (HASH owner -> entry), state (HASH)
-- A record is 'depth weight mints fence abandoned', an entry 'alive-until brief weight mints floor metadata'.
-- If a command is denied: the state is written before the expiry, that before the holder: nobody holds for ever.
local DAY, GRACE = 24 * 3600 * 1000, 60 * 1000
local time = redis.call('TIME')
local NOW_US = time[1] * 1000000 + time[2]
local NOW = math.floor(NOW_US / 1000)
local function text(number) return string.format('%.0f', number) end
local function open(first, capacity)
  local name = { holders = KEYS[first], expiry = KEYS[first + 1] }
  name.queue, name.waiting, name.state = KEYS[first + 2], KEYS[first + 3], KEYS[first + 4]
  local state = redis.call('HMGET', name.state, 'fence', 'serial', 'dirty', 'capacity', 'metadata')
  name.fence, name.serial, name.dirty = tonumber(state[1] or 0), tonumber(state[2] or 0), state[3] or '0'
  name.capacity, name.metadata = tonumber(state[4] or capacity), state[5] or ''
  name.used = tonumber(redis.call('HGET', name.holders, 'used') or 0)
  name.head = redis.call('ZRANGE', name.queue, 0, 0)[1]
  return name
end
local function keep(key, ttl) redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), DAY, ttl + GRACE)) end
local function write(name, owner, depth, weight, mints, fence, abandoned)
  local record = table.concat({ text(depth), text(weight), mints, fence, abandoned }, ' ')
  redis.call('HSET', name.holders, owner, record, 'used', text(name.used))
end
local function grant(name, owner, ttl, weight, mints, floor, metadata)
  local abandoned = name.dirty
  name.serial = math.max(name.serial + 1, NOW_US)
  if mints == '1' or name.fence == 0 then name.fence = math.max(name.fence + 1, tonumber(floor) + 1, NOW_US) end
  if mints == '1' then name.dirty = '0' end
  name.used, name.metadata = name.used + weight, metadata
  redis.call('HSET', name.state, 'fence', text(name.fence), 'serial', text(name.serial), 'dirty', name.dirty,
    'capacity', text(name.capacity), 'metadata', metadata)
  keep(name.state, ttl)
  redis.call('ZADD', name.expiry, NOW + ttl, owner)
  keep(name.expiry, ttl)
  write(name, owner, 1, weight, mints, text(name.fence), abandoned)
  keep(name.holders, ttl)
  return { 'granted', text(name.fence), ttl, abandoned, name.capacity }
end
