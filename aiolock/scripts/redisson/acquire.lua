-- acquire: grants a free RLock or RFencedLock to an owner, or says who has it.
-- KEYS    hash, tombstone of the owner; of an RFencedLock: its counter
-- ARGV    owner, ttl ms
-- returns 'granted <token> <pttl>' | 'refused <pttl> <owner>' | 'finished'
-- The depth is set, not raised, and an owner id is used once: a copy of the request changes nothing.
-- If a command is denied: no one was let in, but a token may be skipped.
local owner, pttl = ARGV[1], redis.call('PTTL', KEYS[1])
local mine = redis.call('HGET', KEYS[1], owner)
if redis.call('EXISTS', KEYS[2]) == 1 then return 'finished' end
if pttl ~= -2 and not mine then
  return string.format('refused %.0f %s', pttl, redis.call('HGETALL', KEYS[1])[1])
end
local token = KEYS[3] and (mine and redis.call('GET', KEYS[3]) or redis.call('INCR', KEYS[3])) or 0
pttl = string.format('%.0f', math.max(ARGV[2], pttl))
if not mine then redis.call('HSET', KEYS[1], owner, 1) end
local kept = redis.pcall('PEXPIRE', KEYS[1], pttl)
if type(kept) == 'table' then
  redis.call('DEL', KEYS[1]) -- without an expiry it would stay for good
  return kept
end
return string.format('granted %.0f %s', token, pttl)
