-- grant: makes an owner the holder of a hash; again, if it is that already.
-- KEYS    hash
-- ARGV    owner, ttl ms
-- returns nothing; its function 'granted <token> <pttl>', or an error
-- The depth is set, not raised, and an owner id is used once: a copy of the request changes nothing.
-- If a command is denied: no one was let in.
local owner = ARGV[1]
local mine, pttl = redis.call('HGET', KEYS[1], owner), redis.call('PTTL', KEYS[1])
local function grant(token)
  pttl = string.format('%.0f', math.max(ARGV[2], pttl))
  if not mine then redis.call('HSET', KEYS[1], owner, 1) end
  local kept = redis.pcall('PEXPIRE', KEYS[1], pttl)
  if type(kept) ~= 'table' then return string.format('granted %.0f %s', token, pttl) end
  if not mine then redis.call('DEL', KEYS[1]) end -- without an expiry it would stay for good
  return kept
end
