-- release: lowers an owner's depth in each name it has; at 0 it leaves all names and queues, and each goes to the next
-- in line.
-- KEYS    tombstone of the owner; then state, queue, alive; repeated
-- ARGV    owner, clean state ttl ms, channel of managers, ending ('clean', 'undone', 'dirty'; 'back': only what is
--         reserved), depth left, tombstone ttl ms (0: none)
-- returns 'released <fence>' | 'kept <pttl>' | 'missing <deleted or taken_over>'
-- Each name ends as in the plain lock's release; 'missing' if one of them was, whatever happened to the others.
-- If a command is denied: see finish. A name that cannot be read stays, the others end, and the answer is its error.
local fence, pttl, gone, failed = '0', math.huge, nil, nil
for at = 2, #KEYS, 3 do
  local done, minted, reason, ms = pcall(finish, at, ARGV[5], ARGV[4], ARGV[2])
  if not done then
    failed = failed or minted
  elseif minted then
    fence, pttl = minted, math.min(pttl, ms)
  else
    gone = worse(gone, reason)
  end
end
if ARGV[5] == '0' and ARGV[6] ~= '0' then redis.pcall('SET', KEYS[1], 1, 'PX', ARGV[6]) end
if failed then error(failed, 0) end
if gone then return 'missing ' .. gone end
return ARGV[5] == '0' and 'released ' .. fence or string.format('kept %.0f', pttl)
