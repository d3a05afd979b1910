-- read_acquire: lets an owner read, beside other readers.
-- KEYS    hash, tombstone of the owner, timeout of the owner
-- ARGV    owner, ttl ms
-- returns 'granted 0 <pttl>' | 'refused <pttl> <field>' | 'finished'
-- One timeout is enough for all levels: Redisson takes the longest of a reader's.
-- If a command is denied: nothing was changed, or a timeout is left that no one has.
local owner, pttl = ARGV[1], redis.call('PTTL', KEYS[1])
if redis.call('EXISTS', KEYS[2]) == 1 then return 'finished' end
if pttl ~= -2 and redis.call('HGET', KEYS[1], 'mode') ~= 'read' then
  for i, field in ipairs(redis.call('HGETALL', KEYS[1])) do
    if i % 2 == 1 and field ~= 'mode' then return string.format('refused %.0f %s', pttl, field) end
  end
end
redis.call('SET', KEYS[3], 1, 'PX', ARGV[2])
local mine = redis.call('HGET', KEYS[1], owner)
if not mine then redis.call('HSET', KEYS[1], 'mode', 'read', owner, 1) end
local kept = redis.pcall('PEXPIRE', KEYS[1], string.format('%.0f', math.max(ARGV[2], pttl)))
if type(kept) ~= 'table' then return 'granted 0 ' .. ARGV[2] end
if not mine then redis.call('DEL', KEYS[3], pttl == -2 and KEYS[1] or KEYS[3]) end -- or it would stay for good
if not mine and pttl ~= -2 then redis.call('HDEL', KEYS[1], owner) end
return kept
