-- force_release: ends a hold, whoever has it, as RLock.forceUnlock() does.
-- KEYS    hash
-- ARGV    channel
-- returns 1 | 0 (it was free)
-- If a command is denied: nothing was changed, or nobody is told.
if redis.call('DEL', KEYS[1]) == 0 then return 0 end
redis.pcall('PUBLISH', ARGV[1], '0')
return 1
