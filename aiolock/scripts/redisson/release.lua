-- release: lowers an owner's depth; at 0 it leaves the lock, and those that wait are told as Redisson tells them.
-- KEYS    hash; tombstone of the owner, if ARGV has more than 3 words
-- ARGV    owner, levels left, channel; tombstone ttl ms
-- returns 'released' | 'kept <pttl>' | 'missing <deleted or taken_over>'
-- If a command is denied: nothing was changed, or nobody is told.
local depth, pttl = redis.call('HGET', KEYS[1], ARGV[1]), redis.call('PTTL', KEYS[1])
local answer
if not depth then
  answer = pttl == -2 and 'missing deleted' or 'missing taken_over'
elseif ARGV[2] ~= '0' then
  if tonumber(ARGV[2]) < tonumber(depth) then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
  answer = string.format('kept %.0f', pttl)
else
  redis.call('DEL', KEYS[1])
  redis.pcall('PUBLISH', ARGV[3], '0')
  answer = 'released'
end
if ARGV[4] then redis.pcall('SET', KEYS[2], 1, 'PX', ARGV[4]) end
return answer
