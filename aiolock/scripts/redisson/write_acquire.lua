-- write_acquire: lets an owner write, alone.
-- KEYS    hash, tombstone of the owner
-- ARGV    owner, ttl ms
-- returns 'granted 0 <pttl>' | 'refused <pttl> <field>' | 'finished'
-- If a command is denied: no one was let in.
local field, pttl = ARGV[1] .. ':write', redis.call('PTTL', KEYS[1])
if redis.call('EXISTS', KEYS[2]) == 1 then return 'finished' end
local mine = redis.call('HGET', KEYS[1], field)
if pttl ~= -2 and not mine then
  for i, other in ipairs(redis.call('HGETALL', KEYS[1])) do
    if i % 2 == 1 and other ~= 'mode' then return string.format('refused %.0f %s', pttl, other) end
  end
end
if not mine then redis.call('HSET', KEYS[1], 'mode', 'write', field, 1) end
pttl = string.format('%.0f', math.max(ARGV[2], pttl))
local kept = redis.pcall('PEXPIRE', KEYS[1], pttl)
if type(kept) ~= 'table' then return 'granted 0 ' .. pttl end
if not mine then redis.call('DEL', KEYS[1]) end -- without an expiry it would stay for good
return kept
