-- delete: ends a latch, open or not; from now on its name means a fresh one. Follows lock/version.
-- KEYS    latch
-- returns 1, or 0 if there was none
-- If a command is denied: nothing was changed.
check(KEYS[1], redis.pcall('HMGET', KEYS[1], 'version'), '0.2')
return redis.call('DEL', KEYS[1])
