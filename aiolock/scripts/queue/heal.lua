-- heal: opens a name; if its counts disagree, trusts the records in the hash. Follows queue.lua.
-- The order was evicted, or a command was denied. A holder whose end is unknown has its ttl from now.
-- If a command is denied: the next request on the name heals it.
local function heal(state)
  local all, now, own = redis.call('HGETALL', state.key), clock(state), {}
  for _, field in ipairs(FIELDS) do own[field] = true end
  state.used, state.holders, state.waiters, state.expires, state.joined = 0, 0, 0, 0, true
  redis.call('PEXPIRE', state.key, DAY) -- at the memory limit the first write decides
  for i = 1, #all, 2 do
    local owner, record = all[i], all[i + 1]
    local number, weight = record:match(WAITS), select(2, record:match(HOLDS))
    if number then
      state.waiters = state.waiters + 1
      redis.call('ZADD', state.order, number, owner)
    elseif weight then
      state.used, state.holders = state.used + weight, state.holders + 1
      redis.call('ZADD', state.order, 'NX', text(now + state.longest), owner)
    elseif not own[owner] then
      redis.pcall('HDEL', state.key, owner)
    end
  end
end
local function open(k, capacity, owners)
  local state = states[KEYS[k]]
  if state then return state end
  state = read_state(k, capacity, owners)
  local known, kept = state.holders + state.waiters, state.kept
  local size = known + ALWAYS + (kept[11] and 1 or 0) + (kept[12] and 1 or 0) + (kept[13] and 1 or 0)
    + (kept[14] and 1 or 0)
  state.new = known == 0 -- whatever the order then has is void
  if not state.fresh and redis.call('HLEN', state.key) ~= size
    or known > 0 and redis.call('ZCARD', state.order) < known
    or state.waiters > 0 and redis.call('ZCOUNT', state.order, FIRST, '+inf') < state.waiters then heal(state) end
  states[KEYS[k]], states[#states + 1] = state, state
  return state
end
