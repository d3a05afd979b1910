-- acquire: grants a name to an owner, queues the owner, or says who has the name. Follows acquire_free.
-- KEYS    state, queue, alive, tombstone of the owner
-- ARGV    owner, ttl ms, floor, metadata, channel of managers, followed if it may queue by ' <liveness ms
--         (below 0: already said)> <1 if its manager subscribes>[ <number it had>]'
-- returns 'granted <fence> <pttl> <abandoned>' | 'queued <number> <rank> <pttl> <fence> <metadata>'
--         | 'refused <pttl> <fence> <metadata>' | 'finished'
-- What the queue has granted becomes a hold: see own. A copy reads its own grant, or finds its place in the queue.
-- If a command is denied: see join and settle. A granted owner that could not leave the queue does when it ends.
local channel, ms, counted, number = string.match(ARGV[5], '^(%S+) ?(%S*) ?(%S*) ?(%d*)$')
local name, liveness = read(1), tonumber(ms) or 0
name.last = busy > 0 and redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2] or '0'
local alone, mine = name.last == '0', name.live and name.owner == owner
local finished = busy > (alone and 0 or 1) -- EXISTS counted the tombstone and the queue
local place, first
if mine and not finished then own(name, ttl, ARGV[4], ARGV[3]) end
if not finished and not mine then
  if liveness ~= 0 and (name.live or not alone) then
    place = join(name, owner, liveness, counted, ARGV[4], number)
  end
  if not name.live then
    vacate(name)
    if not alone then first = settle(name, channel, owner, ARGV[3]) end
    mine = not first or first == owner
    if mine then grant(name, owner, '1', now + ttl, ARGV[4], ARGV[3]) end
    if first == owner then leave(name, owner, number ~= '') end
  end
end
local rank = place and not mine and (alone and 1 or redis.call('ZRANK', KEYS[2], owner) + 1)
if finished then return 'finished' end
if mine then return string.format('granted %s %.0f %s', name.fence, name.expires - now, name.abandoned) end
local pttl = math.max(0, name.expires - now)
if rank then return string.format('queued %s %d %.0f %s ', place, rank, pttl, name.fence) .. name.process end
return string.format('refused %.0f %s ', pttl, name.fence) .. name.process
