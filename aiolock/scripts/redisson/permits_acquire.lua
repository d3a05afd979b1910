-- permits_acquire: takes permits of an RPermitExpirableSemaphore: an id for each, with the time when it expires.
-- KEYS    how many are free, ids, tombstone of the owner
-- ARGV    owner, ttl ms, how many, channel
-- returns 'granted <how many there are in all> <pttl>' | 'refused <ms until the next expires> <its id>' | 'finished'
-- Follows now. What has expired is given back first, as Redisson does. A copy of the request reads what the first took.
-- If a command is denied: no one was let in.
local owner, ttl, count, ids = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), KEYS[2]
local function add(by) return redis.call('INCRBY', KEYS[1], string.format('%.0f', by)) end
if redis.call('EXISTS', KEYS[3]) == 1 then return 'finished' end
local until_ms = string.format('%.0f', now)
local over = redis.call('ZCOUNT', ids, 0, until_ms)
if over > 0 then
  local free, gone = add(over), redis.pcall('ZREMRANGEBYSCORE', ids, 0, until_ms)
  if type(gone) == 'table' then
    add(-over)
    return gone
  end
  if free > 0 then redis.pcall('PUBLISH', ARGV[4], string.format('%.0f', free)) end
end
local free, left = tonumber(redis.call('GET', KEYS[1]) or 0), redis.call('PTTL', KEYS[1])
local all, mine = free + redis.call('ZCARD', ids), redis.call('ZSCORE', ids, owner .. '#1')
if mine then return string.format('granted %.0f %.0f', all, mine - now) end
if free < count then
  local first, expires = unpack(redis.call('ZRANGE', ids, 0, 0, 'WITHSCORES'))
  return string.format('refused %.0f ', first and expires - now or -1) .. (first or '')
end
local words, expires = {}, string.format('%.0f', now + ttl)
for i = 1, count do words[2 * i - 1], words[2 * i] = expires, string.format('%s#%d', owner, i) end
add(-count)
local taken = redis.pcall('ZADD', ids, unpack(words))
if type(taken) == 'table' then
  add(count)
  return taken
end
if left > 0 then redis.pcall('PEXPIRE', ids, string.format('%.0f', left)) end
return string.format('granted %.0f %.0f', all, ttl)
