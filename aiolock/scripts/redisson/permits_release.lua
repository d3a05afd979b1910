-- permits_release: gives back permits of an owner, and tells those that wait how many are free. Follows now.
-- KEYS    how many are free, ids; tombstone of the owner, if ARGV has more than 4 words
-- ARGV    owner, how many it keeps, how many it had, channel; tombstone ttl ms
-- returns 'released' | 'kept <pttl>' | 'missing deleted'
-- If a command is denied: nothing was changed, or nobody is told. INCRBY: what it had is missing until it is set anew.
local ids = {}
for i = ARGV[2] + 1, ARGV[3] do table.insert(ids, string.format('%s#%d', ARGV[1], i)) end
local back = redis.call('ZREM', KEYS[2], unpack(ids))
if back > 0 then redis.pcall('PUBLISH', ARGV[4], string.format('%.0f', redis.call('INCRBY', KEYS[1], back))) end
if ARGV[5] then redis.pcall('SET', KEYS[3], 1, 'PX', ARGV[5]) end
local left = ARGV[2] ~= '0' and redis.call('ZSCORE', KEYS[2], ARGV[1] .. '#1')
if left then return string.format('kept %.0f', left - now) end
return ARGV[2] == '0' and back > 0 and 'released' or 'missing deleted'
