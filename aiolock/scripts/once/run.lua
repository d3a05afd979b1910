-- run: the last run of a window as a table, and as an answer. Follows lock/state.
-- KEYS    state of the lock, record
-- A run that does not know how it ended is running while its lock is held under its fence; otherwise interrupted.
-- If a command is denied: nothing was changed.
local lock = read(1)
local kept = redis.pcall('HMGET', KEYS[2], 'version', 'fence', 'started', 'status', 'process')
check(KEYS[2], kept, '0.2', 2, 3)
local run = { fence = kept[2], started = kept[3], status = kept[4], process = kept[5] }
if run.status == 'running' and not (lock.live and lock.fence == run.fence) then run.status = 'interrupted' end
local function told(mine)
  if not run.fence then return { mine } end
  local left = math.max(0, redis.call('PTTL', KEYS[2]))
  return { mine, run.fence, run.status, math.max(0, now - run.started), left, run.process }
end
