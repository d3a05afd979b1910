-- info: says who has an RLock.
-- KEYS    hash, counter of an RFencedLock
-- returns {pttl, token ('0': none), owner, depth}, without the last two if it is free
-- If a command is denied: nothing is changed anyway.
return { redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) or '0', unpack(redis.call('HGETALL', KEYS[1])) }
