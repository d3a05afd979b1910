-- ask: returns whose call runs, and the outcome of a call; reads only.
-- KEYS    state of the lock, outcome
-- ARGV    the least fence whose outcome is wanted, '' for none
-- returns {fence of the hold, 0 if it is free or only stays taken, 1 and the text of the outcome | 0 and ''}
-- If a command is denied: nothing was changed.
local lock = read(1)
local kept = redis.pcall('HMGET', KEYS[2], 'version', 'fence', 'text')
check(KEYS[2], kept, nil, 2, 2)
local there = ARGV[1] ~= '' and kept[2] and tonumber(kept[2]) >= tonumber(ARGV[1])
return { lock.live and string.sub(lock.owner, -1) ~= '=' and lock.fence or 0, there and 1 or 0, there and kept[3] or '' }
