-- notify: wakes the first waiters of a condition that were not notified yet.
-- KEYS    condition
-- ARGV    how many, channel of managers
-- returns how many were notified, without those that take the place of a waiter that died
-- If a command is denied: nothing was changed, or fewer were notified and it raises.
look()
keep()
return math.max(0, notify(passed + ARGV[1], ARGV[2]) - passed)
