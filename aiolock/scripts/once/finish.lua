-- finish: keeps how a run ended, or forgets it. Follows lock/version.
-- KEYS    record
-- ARGV    fence of the run ('': any), status ('': forget it)
-- returns 1 | 0 (another run has begun, or the window is over)
-- A copy of the request says the same again.
-- If a command is denied: nothing was changed.
local kept = redis.pcall('HMGET', KEYS[1], 'version', 'fence')
check(KEYS[1], kept, '0.2')
local fence = kept[2]
if not fence or (ARGV[1] ~= '' and fence ~= ARGV[1]) then return 0 end
if ARGV[2] == '' then return redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'status', ARGV[2])
return 1
