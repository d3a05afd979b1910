-- rw_force_release: ends all holds of a read-write lock, whoever has them, and tells those that wait.
-- KEYS    hash, where all timeouts begin
-- ARGV    channel
-- returns 1 | 0 (it was free)
-- If a command is denied: nothing was changed, or timeouts expire by themselves, or nobody is told.
local fields = redis.call('HGETALL', KEYS[1])
if redis.call('DEL', KEYS[1]) == 0 then return 0 end
for i = 1, #fields, 2 do
  for level = 1, tonumber(fields[i + 1]) or 0 do
    redis.call('DEL', KEYS[2] .. ':' .. fields[i] .. ':rwlock_timeout:' .. level)
  end
end
redis.pcall('PUBLISH', ARGV[1], '1')
return 1
