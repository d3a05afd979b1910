-- undo: forgets a run that has not called its function; the one that it replaced is the last run again. Follows clock.
-- KEYS    record
-- ARGV    fence of the run
-- returns 1 | 0 (another run has begun, or the window is over)
-- A copy of the request finds what it left, or the same again.
-- If a command is denied: the record stays, with an expiry, as one of an interrupted run.
local run = redis.call('HMGET', KEYS[1], 'fence', 'before', 'until', 'started before', 'status before', 'by before')
if run[1] ~= ARGV[1] then return 0 end
if not run[2] or tonumber(run[3]) <= now then return redis.call('DEL', KEYS[1]) end
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', run[3] - now))
redis.call('HSET', KEYS[1], 'fence', run[2], 'started', run[4], 'status', run[5], 'by', run[6])
return 1
