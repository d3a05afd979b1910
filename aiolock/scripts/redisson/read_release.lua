-- read_release: lowers a reader's depth; at 0 it leaves. The writer that goes on reading becomes a reader.
-- KEYS    hash, timeout of the owner, where all timeouts begin; tombstone of the owner, if ARGV has more than 4 words
-- ARGV    owner, levels left, channel, ttl ms; tombstone ttl ms
-- returns 'released' | 'kept <pttl>' | 'missing <deleted or taken_over>'
-- The hash stays for as long as another reader may have it. Redisson shortens it to the longest timeout.
-- If a command is denied: nothing was changed, or a reader stays until its ttl, or nobody is told.
local owner, left = ARGV[1], ARGV[2]
if ARGV[5] then redis.pcall('SET', KEYS[4], 1, 'PX', ARGV[5]) end
if left ~= '0' and redis.call('HGET', KEYS[1], owner .. ':write') then
  redis.call('SET', KEYS[2], 1, 'PX', ARGV[4])
  redis.call('HSET', KEYS[1], 'mode', 'read', owner, left)
  redis.call('HDEL', KEYS[1], owner .. ':write')
  redis.pcall('PUBLISH', ARGV[3], '1') -- Redisson lets the other readers wait until the ttl is over
end
local depth, pttl = redis.call('HGET', KEYS[1], owner), redis.call('PTTL', KEYS[1])
if not depth then return pttl == -2 and 'missing deleted' or 'missing taken_over' end
if left ~= '0' then
  if tonumber(left) < tonumber(depth) then redis.call('HSET', KEYS[1], owner, left) end
  return string.format('kept %.0f', redis.call('PTTL', KEYS[2]))
end
redis.call('HDEL', KEYS[1], owner)
redis.call('DEL', KEYS[2])
local fields, alive = redis.call('HGETALL', KEYS[1]), redis.call('HGET', KEYS[1], 'mode') == 'write'
for i = 1, #fields, 2 do
  for level = tonumber(fields[i + 1]) or 0, 1, -1 do
    alive = alive or redis.call('EXISTS', KEYS[3] .. ':' .. fields[i] .. ':rwlock_timeout:' .. level) == 1
  end
end
if not alive then
  redis.call('DEL', KEYS[1])
  redis.pcall('PUBLISH', ARGV[3], '0')
end
return 'released'
