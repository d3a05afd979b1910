-- latch_query: says how many counts an RCountDownLatch lacks.
-- KEYS    the number
-- returns it; 0: it is open, or was never set
-- If a command is denied: nothing is changed anyway.
return tonumber(redis.call('GET', KEYS[1]) or 0)
