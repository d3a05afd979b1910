-- release: lowers an owner's depth in each name it still has; at 0 frees them, and tells those who wait.
-- KEYS    tombstone of the owner; then lock, state; repeated
-- ARGV    owner, depth left, ending ('clean', 'undone', 'dirty'), clean state ttl ms, tombstone ttl ms (0: none);
--         then each name's channel
-- returns {'released', fence, most listeners on a channel} | {'kept', pttl} | {'missing', 'deleted' or 'taken_over'}
-- Each name ends as in the plain lock's release; 'missing' if one was, whatever became of the others.
-- If a command is denied: one DEL frees all names, and before it nothing is changed; what follows it is tried, never
-- needed. A name that cannot be read stays, the others are freed, and its error is answered.
local owner, left, ending = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local mine, locks, fence, pttl, others, gone, failed = {}, {}, '0', math.huge, 0, nil, nil
for i = 2, #KEYS, 2 do
  local done, one = pcall(part, i, owner)
  fence = done and one.owner == owner and one.fence or fence
  if not done then
    failed = failed or one
  elseif one.count then
    one.channel, pttl = ARGV[5 + i / 2], math.min(pttl, one.pttl)
    mine[#mine + 1], locks[#locks + 1] = one, KEYS[one.at]
  elseif left > 0 or one.owner ~= owner or one.clean ~= '1' then
    gone = worse(gone, one.gone)
  end
end
if left == 0 and #mine > 0 then redis.call('DEL', unpack(locks)) end
for _, one in ipairs(mine) do
  if left > 0 then
    lower(one, owner, left)
  else
    others = math.max(others, tell(one, owner, ending))
  end
end
if left == 0 and ARGV[5] ~= '0' then redis.pcall('SET', KEYS[1], 1, 'PX', ARGV[5]) end
if failed then error(failed, 0) end
if gone then return {'missing', gone} end
return left > 0 and {'kept', pttl} or {'released', fence, others}
