-- acquire: grants a free RLock or RFencedLock to an owner, or says who has it. Follows grant, which has the
-- arguments: owner, ttl ms.
-- KEYS    hash, tombstone of the owner; of an RFencedLock: its counter
-- returns 'granted <token> <pttl>' | 'refused <pttl> <owner>' | 'finished'
-- If a command is denied: no one was let in, but a token may be skipped.
if redis.call('EXISTS', KEYS[2]) == 1 then return 'finished' end
if pttl ~= -2 and not mine then
  return string.format('refused %.0f %s', pttl, redis.call('HGETALL', KEYS[1])[1])
end
return grant(KEYS[3] and (mine and redis.call('GET', KEYS[3]) or redis.call('INCR', KEYS[3])) or 0)
