-- begin: begins a run, under the lock's hold, unless this window has had its run. Follows run.
-- KEYS    state of the lock, record
-- ARGV    fence of the hold, window ms, which ends allow another run (names with spaces around each), by
-- returns {1, fence, status, age ms, left ms, by} (this run) | {0, …} (that one, as last_run)
-- The window begins with each run; the one that it replaces is kept beside it, for undo. A copy of the request finds its
-- own run; one that comes after the hold changes nothing.
-- If a command is denied: reads and PEXPIRE come before HSET, so no record is left without an expiry.
if not lock.live or lock.fence ~= ARGV[1] then return told(0) end
if run.fence == ARGV[1] and run.status == 'running' then return told(1) end
if run.fence and not string.find(ARGV[3], ' ' .. run.status .. ' ', 1, true) then return told(0) end
local before = {}
if run.fence then
  before = { 'before', run.fence, 'until', string.format('%.0f', now + redis.call('PTTL', KEYS[2])) }
  for field, value in pairs({ started = run.started, status = run.status, by = run.by }) do
    table.insert(before, field .. ' before')
    table.insert(before, value)
  end
end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
run = { fence = ARGV[1], started = string.format('%.0f', now), status = 'running', by = ARGV[4] }
local kept = { 'fence', run.fence, 'started', run.started, 'status', run.status, 'by', run.by, unpack(before) }
redis.call('HSET', KEYS[2], unpack(kept))
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return told(1)
