-- fair_force_release: ends the hold of a fair lock, whoever has it, and tells the next in line. Follows line.
-- KEYS    hash, list, deadlines
-- ARGV    channel without an owner, where holders of ours listen, too
-- returns 1 | 0 (it was free)
-- If a command is denied: nothing was changed, or nobody is told.
local places = line()
if redis.call('DEL', KEYS[1]) == 0 then return 0 end
if places[1] then redis.pcall('PUBLISH', ARGV[1] .. ':' .. places[1], '0') end
redis.pcall('PUBLISH', ARGV[1], '0')
return 1
