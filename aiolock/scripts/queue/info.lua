-- info: returns who holds a name and who waits for it; reads only.
-- KEYS    name (2)
-- ARGV    capacity, owner whose rank you ask for ('': none)
-- returns {holders, weight held, capacity, fence, waiters, rank from 1 (0: none)
--         [, owner, depth, pttl, fence, process of the holder that holds longest]}
-- If many expired holders are still listed, it looks up the weight of some, and the others count as 1.
-- If a command is denied: nothing was changed.
local state = read_state(1, ARGV[1], { ARGV[2] })
local now = clock(state)
local expired = redis.call('ZCOUNT', state.order, '-inf', text(now))
local over = redis.call('ZRANGEBYSCORE', state.order, '-inf', text(now), 'LIMIT', 0, room)
local used = state.used - (expired - #over)
fetch(state, over)
for _, owner in ipairs(over) do
  local _, weight = holder(state, owner)
  used = used - (weight or 0)
end
local number, live = waiter(state, ARGV[2]), state.holders - expired
local rank = number and redis.call('ZCOUNT', state.order, FIRST, number) or 0
state.holders = live
fit(state, ARGV[1])
local answer = { live, used, state.capacity, tonumber(state.fence), state.waiters, rank }
local last = redis.call('ZREVRANGEBYSCORE', state.order, '(' .. FIRST, '(' .. text(now), 'WITHSCORES', 'LIMIT', 0, 1)
local depth, _, _, fence, _, told = holder(state, last[1] or '')
if depth then
  for _, fact in ipairs({ last[1], math.max(1, depth), last[2] - now, fence, told }) do answer[#answer + 1] = fact end
end
return answer
