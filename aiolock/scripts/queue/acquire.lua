-- acquire: grants a name to an owner, queues it, or repeats what it has; one answer per request.
-- KEYS    name (2), tombstone of the owner; repeated
-- ARGV    channel of managers; then owner, ttl ms, depth, fence (0: not nested), weight, mints, floor, capacity,
--         queue number (0: a new one, -1: do not queue), liveness ms, metadata; repeated
-- returns a list of {'granted', fence, pttl, abandoned, capacity} | {'refused', pttl, fence, metadata}
--         | {'queued', serial, queue number, rank, fence, metadata, ms until a holder's time is over
--         (0: ask again at once, as there was more to do than one request may; -1: unknown)}
--         | {'lost', 'deleted' or 'taken_over'} | {'finished'} | {'impossible', capacity} | 'error …'
-- Only depth 1 creates, nothing shortens, and a copy of the request reads its own grant or queue number.
-- If a command is denied: see queue.lua and close.lua; other names in a batch are done.
local function pause(state)
  if state.cut then
    state.cut = false -- one of those that asked is enough
    return 0
  end
  if not state.first then
    local first = state.holders > 0 and redis.call('ZRANGE', state.order, 0, 0, 'WITHSCORES')[2]
    state.first = first and tonumber(first) or clock(state) - 1
  end
  return state.first - clock(state)
end
local function complete(k, a)
  local state, number = open(k), waiter(open(k), ARGV[a])
  local serial, fence, metadata = latest(state)
  if ARGV[a + 8] ~= '-1' then
    local rank = redis.call('ZCOUNT', state.order, FIRST, number)
    return { 'queued', tonumber(serial), tonumber(number), rank, tonumber(fence), metadata, pause(state) }
  end
  local last = redis.call('ZREVRANGEBYSCORE', state.order, '(' .. FIRST, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  return { 'refused', math.max(0, (last or 0) - clock(state)), tonumber(fence), metadata }
end
if #KEYS ~= 3 then return batch(3, 11, 2, arrive, decide, complete) end
local answer = arrive(1, 2, { ARGV[2] })
settle(open(1))
answer = answer or decide(1, 2)
close(open(1))
return { answer or complete(1, 2) }
