-- info: says who holds the lock; reads only.
-- KEYS    lock, state
-- returns {} | {owner, depth, pttl, fence, metadata}
-- If a command is denied: nothing was changed.
local held = redis.call('HGETALL', KEYS[1])
if #held == 0 then return {} end
local state = redis.call('HMGET', KEYS[2], 'fence', 'metadata')
return {held[1], tonumber(held[2]), redis.call('PTTL', KEYS[1]), state[1] or '0', state[2] or ''}
