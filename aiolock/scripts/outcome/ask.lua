-- ask: returns whose call runs, and the outcome of a call; reads only.
-- KEYS    state of the lock, outcome
-- ARGV    the least fence whose outcome is wanted, '' for none
-- returns {fence of who has the name, 0 if it is free, 1 | 0 (nobody's call runs: the name only stays taken, see release),
--         1, the text of the outcome and how many us ago the call had ended | 0, '' and 0}
-- If a command is denied: nothing was changed.
local lock = read(1)
local kept = redis.pcall('HMGET', KEYS[2], 'version', 'fence', 'ended', 'text')
check(KEYS[2], kept, nil, 2, 3)
local there = ARGV[1] ~= '' and kept[2] and tonumber(kept[2]) >= tonumber(ARGV[1])
local ago = there and math.max(0, time[1] * 1000000 + time[2] - (kept[3] or 0)) or 0
local runs = lock.live and string.sub(lock.owner, -1) ~= '=' and 1 or 0
return { lock.live and lock.fence or 0, runs, there and 1 or 0, there and kept[4] or '', string.format('%.0f', ago) }
