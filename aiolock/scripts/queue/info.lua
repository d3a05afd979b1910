-- info: says who holds a name and who waits for it; reads only, unless it is to fix the capacity.
-- KEYS    name (2)
-- ARGV    capacity, owner whose rank is asked for ('': none), ms to keep the capacity if nobody comes (0: do not fix it)
-- returns {holders, weight held, capacity, fence, metadata of the last grant, waiters, rank from 1 (0: none)
--         [, owner, depth, pttl, fence of the holder that holds longest]}
-- Of many whose time is over, and who still stand there, the weight of some is looked up, and the others count as 1.
-- If a command is denied: nothing was changed; where the capacity was to be fixed, the answer stands without it.
local name = look(1, ARGV[1], { ARGV[2] })
local function fix(ms)
  ms = text(math.max(ms, redis.call('PTTL', name.key)))
  redis.call('PEXPIRE', name.key, ms)
  if not name.fresh then return end
  redis.call('HSET', name.key, 'state', name.state)
  redis.call('PEXPIRE', name.key, ms)
end
if ARGV[3] ~= '0' then pcall(fix, ARGV[3]) end
local expired = redis.call('ZCOUNT', name.order, '-inf', text(NOW))
local over = redis.call('ZRANGEBYSCORE', name.order, '-inf', text(NOW), 'LIMIT', 0, room)
local used = name.used - (expired - #over)
fetch(name, over)
for _, owner in ipairs(over) do
  local _, weight = holder(name, owner)
  used = used - (weight or 0)
end
local number, live = waiter(name, ARGV[2]), name.holders - expired
local rank = number and redis.call('ZCOUNT', name.order, FIRST, number) or 0
local _, minted, metadata = latest(name)
local answer = { live, used, name.capacity, tonumber(minted), metadata, name.waiters, rank }
local last = redis.call('ZREVRANGEBYSCORE', name.order, '(' .. FIRST, '(' .. text(NOW), 'WITHSCORES', 'LIMIT', 0, 1)
local depth, _, _, fence = holder(name, last[1] or '')
if depth then answer[8], answer[9], answer[10], answer[11] = last[1], tonumber(depth), last[2] - NOW, fence end
return answer
