-- queue: the waiters of a name. Follows holders.lua.
-- ARGV    channel of managers, without their ids: the first of every script that uses this
-- If a command is denied: a waiter's number in the order comes before its record, and is void without it.
-- A priority is part of an owner's id: its place is a minute earlier for each step.
local function ahead(owner) return 60000000 * (string.match(owner, ':%D?%d+p(%d+)') or 0) end
-- An owner that comes back, forgotten or with an expired grant, may be the first in line; so may one with a priority.
local function passes(state, owner, number)
  return number > 0 or (number == 0 and state.waiters > 0 and ahead(owner) > 0)
end
local function join(state, owner, number, rest)
  local known = waiter(state, owner)
  if not known then
    local came = number == '0' and math.max(state.serial + 1, NOW_US, FIRST) or math.max(number, FIRST)
    known = text(number == '0' and math.max(came - ahead(owner), FIRST) or came)
    state.serial = text(math.max(state.serial, came)) -- every later number of the same priority differs
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
