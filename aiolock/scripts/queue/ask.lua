-- ask: the steps of an acquire: who waits shows that it lives, then each is granted, queued or refused. Behind turn.lua.
-- KEYS    name (2), tombstone of the owner; from KEYS[k]
-- ARGV    as acquire.lua, from ARGV[a]
-- If a command is denied: as in line.lua.
local function enter(name, a)
  local owner, ttl, _, _, weight, mints, floor, _, number, liveness, metadata = unpack(ARGV, a, a + 10)
  local provisional = text(math.min(ttl, liveness))
  join(name, owner, number, table.concat({ text(NOW + liveness), provisional, weight, mints, floor, ttl, metadata }, ' '))
end
local function arrive(k, a, owners)
  local name, owner = open(k, ARGV[a + 7], owners), ARGV[a]
  prune(name)
  local waits = waiter(name, owner)
  if not waits and redis.call('EXISTS', KEYS[k + 2]) == 1 then return { 'finished' } end
  -- Who was forgotten, or granted for a time that is over, and comes back may be the first in line.
  if waits or (tonumber(ARGV[a + 8]) > 0 and not holder(name, owner)) then enter(name, a) end
end
local function decide(k, a)
  local owner, ttl, depth, fence, weight, mints, floor, _, number, _, metadata = unpack(ARGV, a, a + 10)
  local name = open(k)
  local count, held, minted, token, abandoned = holder(name, owner)
  if count and fence ~= '0' and fence ~= token then return { 'lost', 'taken_over' } end
  if count then
    if tonumber(depth) > tonumber(count) then
      -- A writer that reads, too, weighs more than all; nobody else gets more by nesting.
      local alone = name.holders == 1 and tonumber(held) >= name.capacity
      local more = alone and math.max(held, weight) or held
      name.used = name.used + more - held
      write(name, owner, table.concat({ 'h', depth, text(more), minted, token, abandoned }, ' '))
    end
    return { 'granted', token, extend(name, owner, tonumber(ttl)), abandoned, name.capacity }
  end
  if depth ~= '1' then return { 'lost', gone(name, weight) } end
  if tonumber(weight) > name.capacity then return { 'impossible', name.capacity } end
  if name.waiters == 0 and name.shut <= NOW and name.used + weight <= name.capacity then
    name.grows = true
    return grant(name, owner, tonumber(ttl), weight, mints, floor, metadata)
  end
  if number ~= '-1' and not waiter(name, owner) then enter(name, a) end
end
