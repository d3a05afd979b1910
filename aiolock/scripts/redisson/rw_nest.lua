-- rw_nest: raises the depth of a reader or of the writer, and extends its hold.
-- KEYS    hash; of a reader: its timeout
-- ARGV    field, ttl ms, depth
-- returns 'kept <pttl>' | 'missing <deleted or taken_over>'
-- It never lowers or shortens, so a copy of the request changes nothing.
-- If a command is denied: nothing was changed, or only the ttl.
local depth, pttl = redis.call('HGET', KEYS[1], ARGV[1]), redis.call('PTTL', KEYS[1])
if not depth then return pttl == -2 and 'missing deleted' or 'missing taken_over' end
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(ARGV[2], pttl)))
if KEYS[2] then
  pttl = redis.call('PTTL', KEYS[2])
  redis.call('SET', KEYS[2], 1, 'PX', string.format('%.0f', math.max(ARGV[2], pttl)))
end
if tonumber(ARGV[3]) > tonumber(depth) then redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
return string.format('kept %.0f', math.max(ARGV[2], pttl))
