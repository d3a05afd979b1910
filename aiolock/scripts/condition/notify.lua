-- notify: wakes the first waiters of a condition that were not notified yet. Follows wake.
-- KEYS    condition
-- ARGV    how many, channel of managers
-- returns how many were notified, without those that take the place of a waiter that died
-- If a command is denied: nothing was changed, or fewer were notified and it raises.
check(KEYS[1], redis.pcall('HMGET', KEYS[1], 'version'), '0.2')
look()
keep()
return math.max(0, wake(passed + ARGV[1], ARGV[2]) - passed)
