-- last_run: returns the last run, if its window is not over; reads only. Follows run.
-- KEYS    state of the lock, record
-- returns {0} (none) | {0, fence, status, age ms, left ms, by}
-- If a command is denied: nothing was changed.
return told(0)
