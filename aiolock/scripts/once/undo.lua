-- undo: forgets a run that has not called its function; the one that it replaced is the last run again. Follows
-- lock/version and lock/clock.
-- KEYS    record
-- ARGV    fence of the run
-- returns 1 | 0 (another run has begun, or the window is over)
-- A copy of the request finds what it left.
-- If a command is denied: the record stays, with an expiry, as one of an interrupted run, or of both runs.
local kept = redis.pcall('HMGET', KEYS[1], 'version', 'fence', 'before')
check(KEYS[1], kept, '0.2')
if kept[2] ~= ARGV[1] then return 0 end
local form = '^fence=(%d+) started=(%d+) status=(%l+) until=(%d+) process=(.*)$'
local fence, started, status, ends, process = string.match(kept[3] or '', form)
if not fence or tonumber(ends) <= now then return redis.call('DEL', KEYS[1]) end
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ends - now))
redis.call('HSET', KEYS[1], 'fence', fence, 'started', started, 'status', status, 'process', process)
redis.pcall('HDEL', KEYS[1], 'before')
return 1
