-- info: returns who holds a name, and how long its queue is; reads only.
-- KEYS    state, queue
-- ARGV    an owner that waits, or ''
-- returns {} (free, and no one waits) | {holder ('' if free), depth, pttl, fence, metadata, waiters, rank of the
--         owner that waits, 0 if it does not}
-- If a command is denied: nothing was changed.
local name, waiters = read(1), redis.call('ZCARD', KEYS[2])
if not name.live and waiters == 0 then return {} end
local rank = waiters > 0 and ARGV[1] ~= '' and redis.call('ZRANK', KEYS[2], ARGV[1])
if not name.live then vacate(name) end
local holder, depth = name.live and name.owner or '', math.max(name.live and 1 or 0, name.depth)
local pttl = math.max(0, name.expires - now)
return { holder, depth, pttl, name.fence, name.process, waiters, rank and rank + 1 or 0 }
