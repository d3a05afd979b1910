-- keep: keeps the outcome of a call for those that joined it, unless that of a later call is kept.
-- KEYS    outcome: a hash, version, fence, ended, text
-- ARGV    fence of the hold under which it ran, text, ms to keep it, us of the server when the call ended
-- returns 1 (kept) | 0
-- If a command is denied: PEXPIRE comes before HSET, so nothing is left without an expiry, or nothing was changed.
local kept = redis.pcall('HMGET', KEYS[1], 'version', 'fence')
check(KEYS[1], kept, nil, 2, 2)
if kept[2] and tonumber(kept[2]) >= tonumber(ARGV[1]) then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('HSET', KEYS[1], 'version', VERSION, 'fence', ARGV[1], 'ended', ARGV[4], 'text', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
