-- fair_acquire: grants a fair lock to an owner if it is its turn, or gives it a place. Follows grant and line.
-- KEYS    hash, list, deadlines, tombstone of the owner
-- ARGV    owner, ttl ms, ms that it may wait without a heartbeat (0: it does not wait)
-- returns 'granted 0 <pttl>' | 'queued <rank> <pttl> <holder>' | 'refused <pttl> <holder>' | 'finished'
-- If a command is denied: see grant and line.
if redis.call('EXISTS', KEYS[4]) == 1 then return 'finished' end
local places, rank = line(owner)
local wait = tonumber(ARGV[3])
if mine or (pttl == -2 and (rank == 1 or not places[1])) then
  if rank then forget(owner) end
  return grant(0)
end
if wait == 0 then return 'refused ' .. taken(places, pttl) end
if not rank then
  rank = #places + 1
  places[rank] = owner
  stay(places, rank, wait, pttl)
  redis.call('RPUSH', KEYS[2], owner)
end
return string.format('queued %d %s', rank, taken(places, pttl))
