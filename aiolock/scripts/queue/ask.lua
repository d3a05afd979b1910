-- ask: the steps of an acquire: waiters show that they live, then each is granted, queued or refused. Follows slots.lua.
-- KEYS    name (2), tombstone of the owner; from KEYS[k]
-- ARGV    as acquire.lua, from ARGV[a]
-- If a command is denied: as in queue.lua.
local function enter(state, a)
  local owner, ttl, _, _, weight, mints, floor, _, number, liveness, process = unpack(ARGV, a, a + 10)
  join(state, owner, number, 'until=' .. text(clock(state) + liveness) .. ' lasts=' .. text(math.min(ttl, liveness))
    .. ' weight=' .. weight .. ' mints=' .. mints .. ' floor=' .. floor .. ' ttl=' .. ttl .. ' process=' .. process)
end
local function arrive(k, a, owners)
  local state, owner = open(k, ARGV[a + 7], owners), ARGV[a]
  prune(state)
  fit(state, ARGV[a + 7])
  unseat(state, owner)
  local waits = waiter(state, owner)
  if not waits and redis.call('EXISTS', KEYS[k + 2]) == 1 then return { 'finished' } end
  if waits or (passes(state, owner, tonumber(ARGV[a + 8])) and not holder(state, owner)) then enter(state, a) end
end
local function decide(k, a)
  local state, owner, ttl, depth, fence, weight, mints, floor, capacity, number, _, process = open(k), unpack(ARGV, a, a + 10)
  local count, held, minted, token, abandoned, told = holder(state, owner)
  if count and fence ~= '0' and fence ~= token then return { 'lost', 'taken_over' } end
  if count then
    if tonumber(depth) > math.max(1, count) then
      -- A writer that also reads weighs more than all; no one else gets more by nesting.
      local more = state.holders == 1 and tonumber(held) >= state.capacity and math.max(held, weight) or held
      state.used = state.used + more - held
      hold(state, owner, depth, text(more), minted, token, abandoned, told)
    end
    return assign(state, owner, { 'granted', token, extend(state, owner, tonumber(ttl)), abandoned, state.capacity })
  end
  if depth ~= '1' then return { 'lost', gone(state, weight) } end
  if tonumber(weight) > fit(state, capacity) then return { 'impossible', state.capacity } end
  if state.waiters == 0 and state.shut <= clock(state) and state.used + weight <= state.capacity then
    state.grows = true
    return assign(state, owner, grant(state, owner, depth, tonumber(ttl), weight, mints, floor, process))
  end
  if number ~= '-1' and not waiter(state, owner) then enter(state, a) end
end
