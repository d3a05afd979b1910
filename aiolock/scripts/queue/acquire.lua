-- acquire: grants a name to an owner, or queues it, or says again what it has; an answer for each request in it.
-- KEYS    name (5), tombstone of the owner; repeated
-- ARGV    channel before, after; then owner, ttl ms, depth, fence (0: not nested), weight, mints, floor, capacity,
--         ticket (0: a new one, -1: do not queue), liveness ms, metadata; repeated
-- returns a list of {'granted', fence, pttl, abandoned, capacity} | {'queued', serial, ticket, rank, fence, metadata,
--         ms until a holder expires} | {'refused', pttl, fence, metadata} | {'lost', 'deleted' or 'taken_over'}
--         | {'finished'} | {'impossible', capacity} | 'error …'
-- Only depth 1 creates, nothing shortens, a copy of the request reads its own grant or its own ticket.
-- If a command is denied: see name.lua and line.lua; what stands beside it in a batch is done.
local function acquire(k, a)
  local owner, ttl, depth, fence, weight, mints, floor, capacity, ticket, liveness, metadata = unpack(ARGV, a, a + 10)
  local brief = tonumber(ttl) < tonumber(liveness) and ttl or liveness
  if redis.call('EXISTS', KEYS[k + 5]) == 1 then return { 'finished' } end
  local name = open(k, capacity)
  local entry = { brief, weight, mints, floor, ttl, metadata }
  local place = name.head and redis.call('ZSCORE', name.queue, owner)
  -- Who comes back may be the first in line.
  if not place and tonumber(ticket) > 0 and read(name, owner) == '0' then place = ticket end
  if place then join(name, owner, place, tonumber(liveness), entry) end
  settle(name, owner)
  local count, held, minted, token, abandoned = read(name, owner)
  if count ~= '0' then
    if fence ~= '0' and fence ~= token then return { 'lost', 'taken_over' } end
    if tonumber(depth) > tonumber(count) then write(name, owner, depth, held, minted, token, abandoned) end
    return { 'granted', token, extend(name, owner, tonumber(ttl), token), abandoned, name.capacity }
  end
  if depth ~= '1' then return { 'lost', gone(name, weight) } end
  if tonumber(weight) > name.capacity then return { 'impossible', name.capacity } end
  if not name.head and name.used + weight <= name.capacity then
    return grant(name, owner, tonumber(ttl), weight, mints, floor, metadata)
  end
  local last = redis.call('ZREVRANGE', name.expiry, 0, 0, 'WITHSCORES')[2] or NOW
  if ticket == '-1' then return { 'refused', last - NOW, name.fence, name.metadata } end
  if not place then join(name, owner, ticket, tonumber(liveness), entry) end
  local first = redis.call('ZRANGE', name.expiry, 0, 0, 'WITHSCORES')[2] or NOW
  local at, rank = redis.call('ZSCORE', name.queue, owner), redis.call('ZRANK', name.queue, owner) + 1
  return { 'queued', name.serial, tonumber(at), rank, name.fence, name.metadata, first - NOW }
end
if #KEYS == 6 then return { acquire(1, 3) } end
return each(acquire, 6, 11, 3)
