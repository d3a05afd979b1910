-- finish: keeps how a run ended, or forgets it.
-- KEYS    record
-- ARGV    fence of the run ('': any), status ('': forget it)
-- returns 1 | 0 (another run has begun, or the window is over)
-- A copy of the request says the same again.
-- If a command is denied: nothing was changed.
local fence = redis.call('HGET', KEYS[1], 'fence')
if not fence or (ARGV[1] ~= '' and fence ~= ARGV[1]) then return 0 end
if ARGV[2] == '' then return redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'status', ARGV[2])
return 1
