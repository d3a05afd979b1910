-- last_run: returns the last run, if its window is not over; reads only. Follows run.
-- KEYS    state of the lock, record
-- returns {0} (none) | {0, fence, status, age ms, left ms, process}; without a record, but if the lock is held, its holder:
--         {0, fence, 'held', age ms, 0, process}, whose age is that of its fence
-- If a command is denied: nothing was changed.
if run.fence or not lock.live then return told(0) end
return { 0, lock.fence, 'held', math.max(0, now - lock.fence / 1000), 0, string.match(lock.process, '^[^\n]*') }
