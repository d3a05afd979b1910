-- run: the last run of a window as a table, and as an answer. Follows lock/state.
-- KEYS    state of the lock, record
-- A run that does not know how it ended is running while its lock is held under its fence; otherwise interrupted.
-- If a command is denied: nothing was changed.
local lock = read(1, redis.call('GET', KEYS[1]))
local kept = redis.call('HMGET', KEYS[2], 'fence', 'started', 'status', 'by')
local run = { fence = kept[1], started = kept[2], status = kept[3], by = kept[4] }
if run.status == 'running' and not (lock.live and lock.fence == run.fence) then run.status = 'interrupted' end
local function told(mine)
  if not run.fence then return { mine } end
  local left = math.max(0, redis.call('PTTL', KEYS[2]))
  return { mine, run.fence, run.status, math.max(0, now - run.started), left, run.by }
end
