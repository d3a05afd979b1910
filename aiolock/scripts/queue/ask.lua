-- ask: the steps of an acquire: waiters show that they live, then each is granted, queued or refused. Follows turn.lua.
-- KEYS    name (2), tombstone of the owner; from KEYS[k]
-- ARGV    as acquire.lua, from ARGV[a]
-- If a command is denied: as in queue.lua.
local function enter(state, a)
  local owner, ttl, _, _, weight, mints, floor, _, number, liveness, metadata = unpack(ARGV, a, a + 10)
  local provisional = text(math.min(ttl, liveness))
  join(state, owner, number, table.concat({ text(clock(state) + liveness), provisional, weight, mints, floor, ttl, metadata }, ' '))
end
local function arrive(k, a, owners)
  local state, owner = open(k, ARGV[a + 7], owners), ARGV[a]
  prune(state)
  fit(state, ARGV[a + 7])
  local waits = waiter(state, owner)
  if not waits and redis.call('EXISTS', KEYS[k + 2]) == 1 then return { 'finished' } end
  -- An owner that comes back, forgotten or with an expired grant, may be the first in line.
  if waits or (tonumber(ARGV[a + 8]) > 0 and not holder(state, owner)) then enter(state, a) end
end
local function decide(k, a)
  local owner, ttl, depth, fence, weight, mints, floor, capacity, number, _, metadata = unpack(ARGV, a, a + 10)
  local state = open(k)
  local count, held, minted, token, abandoned = holder(state, owner)
  if count and fence ~= '0' and fence ~= token then return { 'lost', 'taken_over' } end
  if count then
    if tonumber(depth) > math.max(1, count) then
      -- A writer that also reads weighs more than all; no one else gets more by nesting.
      local more = state.holders == 1 and tonumber(held) >= state.capacity and math.max(held, weight) or held
      state.used = state.used + more - held
      write(state, owner, table.concat({ 'h', depth, text(more), minted, token, abandoned }, ' '))
    end
    return { 'granted', token, extend(state, owner, tonumber(ttl)), abandoned, state.capacity }
  end
  if depth ~= '1' then return { 'lost', gone(state, weight) } end
  if tonumber(weight) > fit(state, capacity) then return { 'impossible', state.capacity } end
  if state.waiters == 0 and state.shut <= clock(state) and state.used + weight <= state.capacity then
    state.grows = true
    return grant(state, owner, depth, tonumber(ttl), weight, mints, floor, metadata)
  end
  if number ~= '-1' and not waiter(state, owner) then enter(state, a) end
end
