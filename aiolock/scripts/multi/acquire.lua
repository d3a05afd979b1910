-- acquire: grants all names to an owner with one fence, or none, and says which is in the way. Follows take.
-- KEYS    tombstone of the owner; then state, queue, alive; repeated
-- ARGV    owner, ttl ms, floor, metadata, liveness ms (0: does not queue), 1 if its manager subscribes, channel of
--         managers, its number in queues (0: unknown); then the names
-- returns 'granted <fence> <pttl> <abandoned>' | 'finished' | 'lost <deleted or taken_over>'
--         | {'queued', number, rank, pttl, fence, metadata, name} | {'refused', pttl, fence, metadata, name}
-- An owner without any of the names queues for one; with some, it keeps them for `liveness` ms, or its
-- ttl if that is shorter, and queues for the rest.
-- If a command is denied: what the owner has by then stays until it ends or that time is over.
if redis.call('EXISTS', KEYS[1]) == 1 then return 'finished' end
local names, whole, some = read_all()
local pttl, abandoned, same, blocker, gone = math.huge, '0', true, nil, 'deleted'
for _, name in ipairs(names) do
  least = math.max(least, name.fence)
  same = same and name.fence == names[1].fence
  if name.live and name.owner ~= owner then gone = 'taken_over' end
  if name.blocked and (not blocker or sooner(name, blocker, some)) then blocker = name end
end
if whole > 0 and not (same and whole == #names) then return 'lost ' .. gone end
for _, name in ipairs(names) do
  if whole > 0 then -- a copy
    name.expires = math.max(name.expires, now + ttl)
    write(name)
  elseif not blocker then
    take(name, '1', now + ttl, ARGV[4], string.format('%.0f', least))
  elseif liveness > 0 and name.blocked and (some or name == blocker) then
    join(name, owner, liveness, ARGV[6], ARGV[4], number)
  elseif liveness > 0 and some and not name.blocked then
    take(name, '0', now + math.min(liveness, ttl), ARGV[4], string.format('%.0f', least))
  end
  if name.abandoned == '1' then abandoned = '1' end
  pttl = math.min(pttl, name.expires - now)
end
if not blocker then return string.format('granted %s %.0f %s', names[1].fence, pttl, abandoned) end
pttl = math.max(0, blocker.expires - now)
if liveness == 0 then return { 'refused', pttl, blocker.fence, blocker.process, blocker.part } end
local queue = KEYS[blocker.at + 1]
local rank = redis.call('ZRANK', queue, owner) + 1
number = number or redis.call('ZSCORE', queue, owner)
return { 'queued', number, rank, pttl, blocker.fence, blocker.process, blocker.part }
