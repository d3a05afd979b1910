-- delete: ends a latch, open or not; from now on its name means a fresh one.
-- KEYS    latch
-- returns 1, or 0 if there was none
-- If a command is denied: nothing was changed.
return redis.call('DEL', KEYS[1])
