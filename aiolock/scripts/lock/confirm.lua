-- confirm: gives an owner's hold the fence that a quorum of servers agreed on, in place of the one minted here.
-- KEYS    lock, state
-- ARGV    owner, minted fence, agreed fence
-- returns 1 | 0 (the owner does not hold it, or not under the minted fence)
-- Compares with what was minted, so a copy that comes late changes nothing that a later grant wrote. The agreed fence
-- may be the lower one: then the minted one was never given to anybody.
-- If a command is denied: nothing was changed.
local owner, minted, agreed = ARGV[1], ARGV[2], ARGV[3]
local state = redis.call('HMGET', KEYS[2], 'fence', 'owner')
if state[2] ~= owner or redis.call('HEXISTS', KEYS[1], owner) == 0 then return 0 end
if state[1] == minted then redis.call('HSET', KEYS[2], 'fence', agreed) end
return (state[1] == minted or state[1] == agreed) and 1 or 0
