-- acquire: grants a name to an owner, queues it, or repeats what it has; one answer per request.
-- KEYS    name (2), tombstone of the owner; repeated
-- ARGV    channel of managers; then owner, ttl ms, depth, fence (0: not nested), weight, mints, floor, capacity,
--         queue number (0: a new one, -1: do not queue), liveness ms, process; repeated
-- returns a list of {'granted', fence, pttl, abandoned, capacity[, slots]} | {'refused', pttl, fence, process of a holder}
--         | {'queued', serial, queue number, rank, fence, process of a holder, ms until its time is over
--         (0: ask again at once, as there was more to do than one request may; -1: unknown)}
--         | {'lost', 'deleted' or 'taken_over'} | {'finished'} | {'impossible', capacity} | 'error …'
-- Only depth 1 creates, nothing shortens, and a copy of the request reads its own grant or queue number.
-- If a command is denied: see queue.lua and close.lua; other names in a batch are done.
local function first(state)
  if not state.first then
    local found = state.holders > 0 and redis.call('ZRANGE', state.order, 0, 0, 'WITHSCORES') or {}
    state.first = { found[1] and process(state, found[1]) or '', found[2] or clock(state) - 1 }
  end
  local pause = state.cut and 0 or state.first[2] - clock(state)
  state.cut = false -- one of those that asked is enough
  return state.first[1], pause
end
local function complete(k, a)
  local state, number = open(k), waiter(open(k), ARGV[a])
  if ARGV[a + 8] ~= '-1' then
    local rank = redis.call('ZCOUNT', state.order, FIRST, number)
    return { 'queued', tonumber(state.serial), tonumber(number), rank, tonumber(state.fence), first(state) }
  end
  local last = redis.call('ZREVRANGEBYSCORE', state.order, '(' .. FIRST, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local told = last[1] and process(state, last[1]) or ''
  return { 'refused', math.max(0, (last[2] or 0) - clock(state)), tonumber(state.fence), told }
end
if #KEYS ~= 3 then return batch(3, 11, 2, arrive, decide, complete) end
local answer = arrive(1, 2, { ARGV[2] })
settle(open(1))
answer = answer or decide(1, 2)
close(open(1))
return { answer or complete(1, 2) }
