-- fair_release: lowers an owner's depth; at 0 it leaves a fair lock, or its queue, and the next in line is told.
-- Follows line.
-- KEYS    hash, list, deadlines; tombstone of the owner, if ARGV has more than 3 words
-- ARGV    owner, levels left, channel without an owner; tombstone ttl ms
-- returns 'released' | 'kept <pttl>' | 'missing <deleted or taken_over>'
-- If a command is denied: nothing was changed; or see line; or nobody is told.
local owner, left = ARGV[1], ARGV[2]
local depth, pttl = redis.call('HGET', KEYS[1], owner), redis.call('PTTL', KEYS[1])
if depth and left ~= '0' then
  if tonumber(left) < tonumber(depth) then redis.call('HSET', KEYS[1], owner, left) end
  return string.format('kept %.0f', pttl)
end
if depth then redis.call('DEL', KEYS[1]) end
local places, rank = line(owner)
if rank then forget(table.remove(places, rank)) end
if places[1] and (depth or pttl == -2) then redis.pcall('PUBLISH', ARGV[3] .. ':' .. places[1], '0') end
if ARGV[4] then redis.pcall('SET', KEYS[4], 1, 'PX', ARGV[4]) end
if depth then return 'released' end
return pttl == -2 and 'missing deleted' or 'missing taken_over'
