-- begin: begins a run, under the lock's hold, unless this window has had its run. Follows run.
-- KEYS    state of the lock, record
-- ARGV    fence of the hold, window ms, which ends allow another run (names with spaces around each), process
-- returns {1, fence, status, age ms, left ms, process} (this run) | {0, …} (that one, as last_run)
-- The window begins with each run; the one that it replaces is kept as `before`, for undo. A copy of the request finds
-- its own run; one that comes after the hold changes nothing.
-- If a command is denied: reads and PEXPIRE come before HSET, so no record is left without an expiry.
if not lock.live or lock.fence ~= ARGV[1] then return told(0) end
if run.fence == ARGV[1] and run.status == 'running' then return told(1) end
if run.fence and not string.find(ARGV[3], ' ' .. run.status .. ' ', 1, true) then return told(0) end
local before, past = {}, run
if past.fence then
  local text = string.format('fence=%s started=%s status=%s until=%.0f process=', past.fence, past.started, past.status,
    now + redis.call('PTTL', KEYS[2]))
  before = { 'before', text .. past.process }
end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
run = { fence = ARGV[1], started = string.format('%.0f', now), status = 'running', process = ARGV[4] }
redis.call('HSET', KEYS[2], 'version', VERSION, 'fence', run.fence, 'started', run.started, 'status', run.status,
  'process', run.process, unpack(before))
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return told(1)
