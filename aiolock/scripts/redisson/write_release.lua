-- write_release: lowers the writer's depth; at 0 it leaves, and all that wait are told.
-- KEYS    hash; tombstone of the owner, if ARGV has more than 3 words
-- ARGV    owner, levels left, channel; tombstone ttl ms
-- returns 'released' | 'kept <pttl>' | 'missing <deleted or taken_over>'
-- If a command is denied: nothing was changed, or nobody is told.
local field, pttl = ARGV[1] .. ':write', redis.call('PTTL', KEYS[1])
local depth, answer = redis.call('HGET', KEYS[1], field), 'released'
if not depth then
  answer = pttl == -2 and 'missing deleted' or 'missing taken_over'
elseif ARGV[2] ~= '0' then
  if tonumber(ARGV[2]) < tonumber(depth) then redis.call('HSET', KEYS[1], field, ARGV[2]) end
  answer = string.format('kept %.0f', pttl)
else
  redis.call('DEL', KEYS[1])
  redis.pcall('PUBLISH', ARGV[3], '1')
end
if ARGV[4] then redis.pcall('SET', KEYS[2], 1, 'PX', ARGV[4]) end
return answer
