-- confirm: gives an owner's hold the fence that a quorum of servers agreed on, in place of the one minted here.
-- KEYS    lock, state
-- ARGV    owner, minted fence, agreed fence
-- returns 1 | 0 (the owner does not hold it, or under another fence, or an earlier holder here had a greater one)
-- The agreed fence may be less than the minted one, which nobody was given; never less than what this server knew
-- before. It takes the place of what was minted only, so a copy that comes late changes nothing.
-- If a command is denied: nothing was changed.
local owner, minted, agreed = ARGV[1], ARGV[2], ARGV[3]
local state = redis.call('HMGET', KEYS[2], 'fence', 'owner', 'before')
if state[2] ~= owner or redis.call('HEXISTS', KEYS[1], owner) == 0 then return 0 end
if state[1] == minted and tonumber(agreed) >= tonumber(state[3] or minted) then
  redis.call('HSET', KEYS[2], 'fence', agreed)
  return 1
end
return state[1] == agreed and 1 or 0
