-- part: reads one of the names: what the owner has of it, and its last grant.
-- KEYS    lock, state; from KEYS[at]
-- returns a table of these; `count` is false where the owner holds nothing, and `gone` then says why
-- If a command is denied: nothing was changed.
local function part(at, owner)
  local pttl = redis.call('PTTL', KEYS[at])
  local count = pttl ~= -2 and redis.call('HGET', KEYS[at], owner)
  local state = redis.call('HMGET', KEYS[at + 1], 'fence', 'owner', 'clean', 'abandoned', 'metadata')
  return {
    at = at,
    pttl = pttl,
    count = count and tonumber(count),
    gone = pttl == -2 and 'deleted' or 'taken_over',
    fence = state[1],
    owner = state[2],
    clean = state[3],
    abandoned = state[4],
    metadata = state[5],
  }
end
-- The graver of two reasons: whoever has taken one name matters more than another name that is free.
local function worse(one, other)
  return one == 'taken_over' and one or other
end
