-- state: the state of a name of the family, as scripts read and change it. Precedes each of them.
-- KEYS    two per name: hash ('state' -> what close.lua writes, owner -> record), order (ZSET owner -> score)
-- A holder's record is 'h depth weight mints fence abandoned', its score the server's ms when its time is over; a
-- waiter's 'w number alive-until provisional weight mints floor ttl metadata', its score that number, FIRST or more.
-- If a command is denied: it reads only, so nothing was changed.
local DAY, GRACE, FIRST, time, states = '86400000', 60 * 1000, '1000000000000000', redis.call('TIME'), {}
local NOW_US, NOW = time[1] * 1000000 + time[2], time[1] * 1000 + math.floor(time[2] / 1000)
local room = 250 -- how many may still come and go in this script: a longer one would block the server
local function text(number) return string.format('%.0f', number) end
local function read_state(k, capacity, owners)
  local records, known = {}, redis.call('HMGET', KEYS[k], 'state', unpack(owners))
  for i, owner in ipairs(owners) do records[owner] = known[i + 1] or '' end
  local before = known[1] or '0 0 0 0 0 ' .. capacity .. ' 0 0 0 0 '
  local used, holders, waiters, longest, shut, most, resized, dirty, last =
    string.match(before, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d) (%d) (.*)$')
  local state = {
    key = KEYS[k], order = KEYS[k + 1], before = before, used = 0 + used, holders = 0 + holders, waiters = 0 + waiters,
    longest = 0 + longest, shut = 0 + shut, capacity = 0 + most, resized = resized, dirty = dirty, last = last,
    records = records,
  }
  if not known[1] then state.fresh = true end
  return state
end
local function latest(state) return string.match(state.last, '^(%d+) (%d+) (.*)$') end -- serial, fence, metadata
-- record: what the hash of a name has of each owner: read at most once, and changed. Follows state.lua.
-- If a command is denied: it reads only, so nothing was changed.
local function fetch(state, owners)
  local new = {}
  for _, owner in ipairs(owners) do if not state.records[owner] then new[#new + 1] = owner end end
  local found = new[1] and redis.call('HMGET', state.key, unpack(new))
  for i, owner in ipairs(new) do state.records[owner] = found[i] or '' end
end
local function match(state, owner, pattern)
  if not state.records[owner] then fetch(state, { owner }) end
  return string.match(state.records[owner], pattern)
end
local function holder(state, owner) return match(state, owner, '^h (%d+) (%d+) (%d) (%d+) (%d)$') end
local function waiter(state, owner) return match(state, owner, '^w (%d+) (%d+) (%d+) (%d+) (%d) (%d+) (%d+) (.*)$') end
local function write(state, owner, record)
  local fields = state.fields
  state.records[owner] = record
  if not fields then state.fields = { owner, record } return end
  fields[#fields + 1], fields[#fields + 2] = owner, record
end
local function remove(state, owner)
  if not state.records[owner] then fetch(state, { owner }) end
  if state.records[owner] ~= '' then write(state, owner, '') end
  local ended = state.ended or {}
  state.ended, ended[#ended + 1] = ended, owner
end
-- holders: how the owners of a name come, change and end. Follows record.lua.
-- A holder that minted a fence and did not end cleanly leaves the state dirty.
-- If a command is denied: it reads only, so nothing was changed.
local function score(state, owner, ends)
  local scores, at = state.scores, text(ends)
  if not scores then state.scores = { at, owner, [owner] = ends } return end
  scores[owner], scores[#scores + 1], scores[#scores + 2] = ends, at, owner
end
local function grant(state, owner, ttl, weight, mints, floor, metadata)
  local abandoned, highest, serial, fence = state.dirty, tonumber(floor), latest(state)
  if highest >= 2 ^ 53 then highest = 0 end -- no fence is that great
  serial = math.max(serial + 1, NOW_US)
  local token, serial_text = math.max(fence + 1, highest + 1, NOW_US), text(serial)
  if mints == '1' or fence == '0' then fence = token == serial and serial_text or text(token) end
  if mints == '1' then state.dirty = '0' end
  state.longest = math.max(state.holders + state.waiters > 0 and state.longest or 0, ttl)
  state.last = serial_text .. ' ' .. fence .. ' ' .. metadata
  state.used, state.holders = state.used + weight, state.holders + 1
  write(state, owner, 'h 1 ' .. weight .. ' ' .. mints .. ' ' .. fence .. ' ' .. abandoned)
  score(state, owner, NOW + ttl)
  return { 'granted', fence, ttl, abandoned, state.capacity }
end
local function drop(state, owner, weight, dirty)
  state.used, state.holders = state.used - weight, state.holders - 1
  if dirty then state.dirty = '1' end
  remove(state, owner)
end
local function extend(state, owner, ttl)
  local ends = math.max(NOW + ttl, state.scores and state.scores[owner] or redis.call('ZSCORE', state.order, owner) or 0)
  state.longest = math.max(state.longest, ttl)
  score(state, owner, ends)
  return ends - NOW
end
-- queue: the waiters of a name. Follows holders.lua.
-- ARGV    manager channel before and after the manager's id: the first two of every script that uses this
-- If a command is denied: a waiter's number in the order comes before its record, and is void without it.
local function join(state, owner, number, rest)
  local known = waiter(state, owner)
  if not known then
    local serial, fence, metadata = latest(state)
    known = text(number == '0' and math.max(serial + 1, NOW_US, FIRST) or math.max(number, FIRST))
    state.last = text(math.max(serial, known)) .. ' ' .. fence .. ' ' .. metadata -- every later number differs
    redis.call('ZADD', state.order, known, owner)
    state.waiters, state.grows, state.joined = state.waiters + 1, true, true
  end
  state.asking = state.asking or {}
  state.asking[owner] = true
  write(state, owner, 'w ' .. known .. ' ' .. rest)
end
local function leave(state, owner)
  if waiter(state, owner) then state.waiters = state.waiters - 1 end
  if not holder(state, owner) then remove(state, owner) end
end
local function tell(state, owner, ...)
  local told = state.told or {}
  state.told, told[#told + 1] = told, { ARGV[1] .. string.match(owner, '^[^:]*') .. ARGV[2], table.concat({ ... }, ' ') }
end
local function gone(state, weight)
  return state.used > 0 and state.used + weight > state.capacity and 'taken_over' or 'deleted'
end
-- heal: opens a name; if its counts disagree, trusts the records in the hash. Follows queue.lua.
-- The order was evicted, or a command was denied. A holder whose end is unknown has its ttl from now.
-- If a command is denied: the next request on the name heals it.
local function heal(state)
  local all = redis.call('HGETALL', state.key)
  state.used, state.holders, state.waiters, state.joined = 0, 0, 0, true
  redis.call('PEXPIRE', state.key, DAY) -- at the memory limit the first write decides
  for i = 1, #all, 2 do
    local owner, record = all[i], all[i + 1]
    local number, weight = record:match('^w (%d+)'), record:match('^h %d+ (%d+)')
    if number then
      state.waiters = state.waiters + 1
      redis.call('ZADD', state.order, number, owner)
    elseif weight then
      state.used, state.holders = state.used + weight, state.holders + 1
      redis.call('ZADD', state.order, 'NX', text(NOW + state.longest), owner)
    elseif owner ~= 'state' then
      redis.pcall('HDEL', state.key, owner)
    end
  end
end
local function open(k, capacity, owners)
  local state = states[KEYS[k]]
  if state then return state end
  state = read_state(k, capacity, owners)
  local known = state.holders + state.waiters
  state.new = known == 0 -- whatever the order then has is void
  if redis.call('HLEN', state.key) ~= known + (state.fresh and 0 or 1)
    or known > 0 and redis.call('ZCARD', state.order) < known
    or state.waiters > 0 and redis.call('ZCOUNT', state.order, FIRST, '+inf') < state.waiters then heal(state) end
  states[KEYS[k]], states[#states + 1] = state, state
  return state
end
-- prune: ends the holders of a name whose time is over. Follows heal.lua.
-- If there may be more than `room` allows, `cut` says so.
-- If a command is denied: it reads only, so nothing was changed.
local function prune(state)
  if state.holders == 0 or state.pruned then return end
  state.pruned = true
  local first = redis.call('ZRANGE', state.order, 0, 0, 'WITHSCORES')[2]
  if not first or tonumber(first) > NOW then return end
  local over = redis.call('ZRANGEBYSCORE', state.order, '-inf', text(NOW), 'LIMIT', 0, room)
  fetch(state, over)
  room, state.cut = room - #over, #over == room
  for _, owner in ipairs(over) do
    local _, weight, mints = holder(state, owner)
    if weight and not (state.scores and state.scores[owner]) then drop(state, owner, weight, mints == '1') else leave(state, owner) end
  end
end
-- turn: who comes next. Follows prune.lua.
-- Tells a manager 'granted <owner> <serial> <fence> <ttl ms> <abandoned> <capacity>'; provisional if no one hears it.
-- If `room` is used up, `cut` says so, and the first in line is told 'refresh <owner>': its request continues the work.
-- If a command is denied: it reads only, so nothing was changed.
local heard = {}
local function admit(state, head, asks, provisional, ttl, ...)
  local channel = ARGV[1] .. string.match(head, '^[^:]*') .. ARGV[2]
  heard[channel] = heard[channel] or redis.pcall('PUBSUB', 'NUMSUB', channel)[2] or 0
  local lasts = (asks or heard[channel] > 0) and ttl or provisional
  local granted = grant(state, head, tonumber(lasts), ...)
  if asks then return end
  tell(state, head, 'granted', head, (latest(state)), granted[2], lasts, granted[4], text(state.capacity))
end
local function settle(state)
  local heads, step = { 1 }, 1
  prune(state)
  while heads[1] and state.waiters > 0 and state.shut <= NOW do
    heads = redis.call('ZRANGEBYSCORE', state.order, FIRST, '+inf', 'LIMIT', state.at or 0, math.min(step, room + 1))
    fetch(state, heads)
    for _, head in ipairs(heads) do
      if state.waiters == 0 then return end
      local _, alive, provisional, weight, mints, floor, ttl, metadata = waiter(state, head)
      local live = alive and tonumber(alive) > NOW and tonumber(weight) <= state.capacity
      local full = live and state.used + weight > state.capacity
      local asks = state.asking and state.asking[head]
      state.cut = state.cut or (room == 0 and not full)
      if state.cut and (full or room == 0) and not asks then tell(state, head, 'refresh', head) end
      if full or room == 0 then return end
      state.at, room, step = (state.at or 0) + 1, room - 1, 2 * step
      leave(state, head)
      if live then admit(state, head, asks, provisional, ttl, weight, mints, floor, metadata) end
    end
  end
end
-- close: writes what changed in a name, and then announces it. Follows turn.lua.
-- One HSET changes the holders and how much is held: a name is never fuller than its holders make it.
-- If a command is denied: before that HSET only the order has changed, which may be ahead of the hash; after it
-- all is done, and ended owners may be left over. The next request trusts the hash, and repairs either.
local function encode(state)
  local numbers = string.format('%.0f %.0f %.0f %.0f %.0f %.0f %s %s ', state.used, state.holders, state.waiters,
    state.longest, state.shut, state.capacity, state.resized, state.dirty)
  return numbers .. state.last
end
local function close(state, clean_ttl)
  local after, order, ended, idle = encode(state), state.scores, nil, state.holders + state.waiters == 0
  local lasting = state.longest + GRACE > 0 + DAY and text(state.longest + GRACE) or DAY
  if state.ended then
    for _, owner in ipairs(state.ended) do
      if state.records[owner] == '' then
        ended = ended or {}
        ended[#ended + 1] = owner
      end
    end
  end
  if after ~= state.before then write(state, 'state', after) end
  local fields = state.fields
  if clean_ttl and idle and state.dirty == '0' and state.resized == '0' then lasting = clean_ttl end
  -- At the memory limit the first write decides: only a write that adds data is refused there.
  if not state.grows and (order or fields or ended) then redis.call('PEXPIRE', state.key, lasting) end
  if order then redis.call('ZADD', state.order, unpack(order)) end
  local function last() redis.call('PEXPIRE', state.order, lasting) end
  if (order or state.joined) and not pcall(last) then
    if state.new then redis.pcall('DEL', state.order) end -- otherwise it would have no expiry
    last()
  end
  if fields then redis.call('HSET', state.key, unpack(fields)) end
  if state.grows then redis.call('PEXPIRE', state.key, lasting) end
  if ended then redis.pcall('HDEL', state.key, unpack(ended)) end
  if ended and idle then redis.pcall('DEL', state.order) end
  if ended and not idle then redis.pcall('ZREM', state.order, unpack(ended)) end
  if state.told then
    for _, told in ipairs(state.told) do redis.pcall('PUBLISH', told[1], told[2]) end
  end
end
-- batch: answers each part of a batch by itself: `keys` KEYS and `args` ARGV per part, from ARGV[first] on with the
-- owner. Each step is taken for all of them, then each name is settled or written; the first answer of a part counts.
-- If a command is denied: the answer of each part of that name is the error's text, and the others are done.
local function batch(keys, args, first, arrive, decide, complete)
  local answers, failed, owners, parts = {}, {}, {}, #KEYS / keys
  local function try(key, step, ...)
    if failed[key] then return nil end
    local done, result = pcall(step, ...)
    -- A caught error is a table on some servers, and text on others.
    if not done then failed[key] = 'error ' .. (type(result) == 'table' and result.err or result) end
    return done and result or nil
  end
  local function all(step)
    for i = 1, parts do
      local k = 1 + (i - 1) * keys
      answers[i] = answers[i] or try(KEYS[k], step, k, first + (i - 1) * args, owners[KEYS[k]])
    end
  end
  for i = 1, parts do
    local key = KEYS[1 + (i - 1) * keys]
    owners[key] = owners[key] or {}
    table.insert(owners[key], ARGV[first + (i - 1) * args])
  end
  all(arrive)
  for _, state in ipairs(states) do try(state.key, settle, state) end
  all(decide)
  for _, state in ipairs(states) do try(state.key, close, state) end
  all(complete)
  for i = 1, parts do answers[i] = failed[KEYS[1 + (i - 1) * keys]] or answers[i] end
  return answers
end
-- ask: the steps of an acquire: waiters show that they live, then each is granted, queued or refused. Follows turn.lua.
-- KEYS    name (2), tombstone of the owner; from KEYS[k]
-- ARGV    as acquire.lua, from ARGV[a]
-- If a command is denied: as in queue.lua.
local function enter(state, a)
  local owner, ttl, _, _, weight, mints, floor, _, number, liveness, metadata = unpack(ARGV, a, a + 10)
  local provisional = text(math.min(ttl, liveness))
  join(state, owner, number, table.concat({ text(NOW + liveness), provisional, weight, mints, floor, ttl, metadata }, ' '))
end
local function arrive(k, a, owners)
  local state, owner = open(k, ARGV[a + 7], owners), ARGV[a]
  prune(state)
  local waits = waiter(state, owner)
  if not waits and redis.call('EXISTS', KEYS[k + 2]) == 1 then return { 'finished' } end
  -- An owner that comes back, forgotten or with an expired grant, may be the first in line.
  if waits or (tonumber(ARGV[a + 8]) > 0 and not holder(state, owner)) then enter(state, a) end
end
local function decide(k, a)
  local owner, ttl, depth, fence, weight, mints, floor, _, number, _, metadata = unpack(ARGV, a, a + 10)
  local state = open(k)
  local count, held, minted, token, abandoned = holder(state, owner)
  if count and fence ~= '0' and fence ~= token then return { 'lost', 'taken_over' } end
  if count then
    if tonumber(depth) > tonumber(count) then
      -- A writer that also reads weighs more than all; no one else gets more by nesting.
      local alone = state.holders == 1 and tonumber(held) >= state.capacity
      local more = alone and math.max(held, weight) or held
      state.used = state.used + more - held
      write(state, owner, table.concat({ 'h', depth, text(more), minted, token, abandoned }, ' '))
    end
    return { 'granted', token, extend(state, owner, tonumber(ttl)), abandoned, state.capacity }
  end
  if depth ~= '1' then return { 'lost', gone(state, weight) } end
  if tonumber(weight) > state.capacity then return { 'impossible', state.capacity } end
  if state.waiters == 0 and state.shut <= NOW and state.used + weight <= state.capacity then
    state.grows = true
    return grant(state, owner, tonumber(ttl), weight, mints, floor, metadata)
  end
  if number ~= '-1' and not waiter(state, owner) then enter(state, a) end
end
-- acquire: grants a name to an owner, queues it, or repeats what it has; one answer per request.
-- KEYS    name (2), tombstone of the owner; repeated
-- ARGV    channel before, after; then owner, ttl ms, depth, fence (0: not nested), weight, mints, floor, capacity,
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
    state.first = first and tonumber(first) or NOW - 1
  end
  return state.first - NOW
end
local function complete(k, a)
  local state, number = open(k), waiter(open(k), ARGV[a])
  local serial, fence, metadata = latest(state)
  if ARGV[a + 8] ~= '-1' then
    local rank = redis.call('ZCOUNT', state.order, FIRST, number)
    return { 'queued', tonumber(serial), tonumber(number), rank, tonumber(fence), metadata, pause(state) }
  end
  local last = redis.call('ZREVRANGEBYSCORE', state.order, '(' .. FIRST, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  return { 'refused', math.max(last or NOW, NOW) - NOW, tonumber(fence), metadata }
end
if #KEYS ~= 3 then return batch(3, 11, 3, arrive, decide, complete) end
local answer = arrive(1, 3, { ARGV[3] })
settle(open(1))
answer = answer or decide(1, 3)
close(open(1))
return { answer or complete(1, 3) }
