-- set_count: says how many there are, permits or counts, unless that was said before, and tells those that wait.
-- KEYS    the number
-- ARGV    how many, channel, message
-- returns 1 | 0 (it was said before)
-- If a command is denied: nothing was changed, or nobody is told.
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('INCRBY', KEYS[1], ARGV[1])
redis.pcall('PUBLISH', ARGV[2], ARGV[3])
return 1
