-- transfer: moves a hold to another owner, with a new fence if its kind mints them.
-- KEYS    name (2), tombstone of the owner, tombstone of the next
-- ARGV    channel of managers, owner, fence, next, ttl ms, floor, process, tombstone ttl ms (0: none), capacity
-- returns {'granted', fence, pttl, abandoned, capacity, weight[, slots]} | {'finished'}
--         | {'missing', 'deleted' or 'taken_over'}
-- A copy of the request reads its own grant. A next that already holds keeps what it has; the owner ends all the same.
-- If a command is denied: see close.lua; the owner holds, or the next.
local owner, next = ARGV[2], ARGV[4]
if redis.call('EXISTS', KEYS[4]) == 1 then return { 'finished' } end
local state = open(1, ARGV[9], { owner, next })
prune(state)
local again, has, _, token, found, mine = holder(state, next)
local held, weight, mints, fence, _, told = holder(state, owner)
local moves = held and fence == ARGV[3] and owner ~= next
local answer = { 'missing', gone(state, 1) }
if moves then drop(state, owner, weight, false) end
if again then
  answer = { 'granted', token, extend(state, next, 0), found, state.capacity, tonumber(has), numbers(mine) }
elseif moves then
  if waiter(state, next) then leave(state, next) end
  local slots = numbers(told)
  local says = slots and numbered(ARGV[7], slots) or ARGV[7]
  answer = grant(state, next, '1', tonumber(ARGV[5]), weight, mints, ARGV[6], says)
  answer[6], answer[7] = tonumber(weight), slots
end
settle(state)
close(state)
if ARGV[8] ~= '0' then redis.pcall('SET', KEYS[3], 1, 'PX', ARGV[8]) end
return answer
