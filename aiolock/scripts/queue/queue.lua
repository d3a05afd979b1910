-- queue: the waiters of a name. Follows holders.lua.
-- ARGV    channel of managers, without their ids: the first of every script that uses this
-- If a command is denied: a waiter's number in the order comes before its record, and is void without it.
local function join(state, owner, number, rest)
  local known = waiter(state, owner)
  if not known then
    known = text(number == '0' and math.max(state.serial + 1, NOW_US, FIRST) or math.max(number, FIRST))
    state.serial = text(math.max(state.serial, known)) -- every later number differs
    redis.call('ZADD', state.order, known, owner)
    state.waiters, state.grows, state.joined = state.waiters + 1, true, true
  end
  state.asking = state.asking or {}
  state.asking[owner] = true
  write(state, owner, 'waits number=' .. known .. ' ' .. rest)
end
local function leave(state, owner)
  if waiter(state, owner) then state.waiters = state.waiters - 1 end
  if not holder(state, owner) then remove(state, owner) end
end
local function tell(state, owner, ...)
  local told = state.told or {}
  state.told, told[#told + 1] = told, { ARGV[1] .. string.match(owner, '^[^:]*'), table.concat({ ... }, ' ') }
end
local function gone(state, weight)
  return state.used > 0 and state.used + weight > state.capacity and 'taken_over' or 'deleted'
end
