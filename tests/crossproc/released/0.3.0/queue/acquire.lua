-- version: refuses a key that another version of aiolock has written, or someone else.
-- `kept` is the answer of HMGET of its field `version` and others, by redis.pcall. Before 0.3 there was no such field: a
-- lock was text. `old` is the version whose hash of this kind had none.
-- raises 'WRONGVERSION <theirs> <key>', or WRONGTYPE
-- If a command is denied: it raises, and nothing was changed.
local VERSION = '0.3'
local function check(key, kept, old)
  local version = kept[1]
  if version == VERSION then return end
  if kept.err then
    local text = redis.pcall('GET', key)
    version = type(text) == 'string' and string.find(text, '^%S+ %d+ %d+ %d+ %d %d+ ') and '0.2'
    if not version then redis.call('HMGET', key, 'version') end -- raises
  elseif not version and redis.call('EXISTS', key) == 0 then
    return
  end
  version = version or old
  error(version and 'WRONGVERSION ' .. version .. ' ' .. key or 'WRONGTYPE the key holds a hash that aiolock has not written')
end
-- state: the state of a name of the family, as scripts read and change it. Follows lock/version.
-- KEYS    two per name: hash (FIELDS -> value, owner -> record, see record.lua), order (ZSET owner -> score)
-- A holder's score is the ms when its time is over; a waiter's is its number, FIRST or more.
-- If a command is denied: it reads only, so nothing was changed.
local DAY, GRACE, FIRST, time, states = '86400000', 60 * 1000, '1000000000000000', redis.call('TIME'), {}
local NOW_US, NOW = time[1] * 1000000 + time[2], time[1] * 1000 + math.floor(time[2] / 1000)
local room = 250 -- how many may still come and go in this script: a longer one would block the server
local FIELDS, ALWAYS = { 'version', 'used', 'holders', 'waiters', 'longest', 'expires', 'capacity', 'serial', 'fence', 'process',
  'abandoned', 'resized', 'shut' }, 10 -- the first ten are in each hash, the others once they were needed
local function text(number) return string.format('%.0f', number) end
local function read_state(k, capacity, owners)
  local records, kept = {}, redis.pcall('HMGET', KEYS[k], 'version', 'used', 'holders', 'waiters', 'longest', 'expires',
    'capacity', 'serial', 'fence', 'process', 'abandoned', 'resized', 'shut', unpack(owners))
  check(KEYS[k], kept, '0.2')
  for i, owner in ipairs(owners) do records[owner] = kept[#FIELDS + i] or '' end
  local state = {
    key = KEYS[k], order = KEYS[k + 1], records = records, kept = kept, fresh = not kept[1], used = 0 + (kept[2] or 0),
    holders = 0 + (kept[3] or 0), waiters = 0 + (kept[4] or 0), longest = 0 + (kept[5] or 0), expires = 0 + (kept[6] or 0),
    capacity = 0 + (kept[7] or capacity), serial = kept[8] or '0', fence = kept[9] or '0', process = kept[10] or '',
    abandoned = kept[11] or '0', resized = kept[12] or '0', shut = 0 + (kept[13] or 0),
  }
  if state.holders + state.waiters == 0 then state.now, state.expires, kept[6] = NOW, 0, '0' end -- it has no moments
  return state
end
-- What nobody holds or waits for has the capacity that who comes now says, unless it was set for all; returns it.
local function fit(state, capacity)
  if state.holders + state.waiters == 0 and state.resized == '0' then state.capacity = 0 + capacity end
  return state.capacity
end
-- clock: the ms by which the moments of a name count: the ends of its holders, its waiters' signs of life, `shut`.
-- Follows state.lua.
-- The hash lasts until `expires`. If it lasts longer, its slot has moved here from a server whose clock is behind this
-- one, as MIGRATE keeps how long a key lasts. That clock goes on to count until nobody holds or waits. If it lasts less
-- long, that clock is ahead, and counts if each holder would have longer than anyone asked for. Otherwise someone has
-- changed how long it lasts, and this server's clock counts: close.lua writes it again.
-- If a command is denied: this server's clock counts. It reads only, so nothing was changed.
local SLACK = 50 -- ms: a script takes as long between two commands, and clocks that NTP keeps do not differ by more
local function lasting(state) return math.max(state.longest + GRACE, DAY) end
local function clock(state)
  if state.now then return state.now end
  state.now = NOW
  local left = tonumber(redis.pcall('PTTL', state.key)) or 0
  local own = left > 0 and left <= lasting(state) + SLACK and state.expires - left or NOW + DAY
  if own < NOW - SLACK then
    state.now = own
  elseif own > NOW + SLACK then
    local found = own < NOW + DAY and redis.pcall('ZRANGE', state.order, 0, 0, 'WITHSCORES')
    local first = found and tonumber(found[2]) or 0
    if first - NOW > state.longest then state.now = own else state.expires = 0 end
  end
  return state.now
end
-- record: what the hash of a name has of each owner: read at most once, and changed. Follows state.lua.
-- Of a holder 'holds depth=… weight=… mints=… fence=… abandoned=… process=…': depth 0: the queue granted it, and nobody
-- has renewed it. Of a waiter 'waits number=… until=… lasts=… weight=… mints=… floor=… ttl=… process=…': until is the
-- ms until which it counts as alive, lasts how long a grant does from its last sign of life on.
-- If a command is denied: it reads only, so nothing was changed.
local HOLDS = '^holds depth=(%d+) weight=(%d+) mints=(%d) fence=(%d+) abandoned=(%d) process=(.*)$'
local WAITS = '^waits number=(%d+) until=(%d+) lasts=(%d+) weight=(%d+) mints=(%d) floor=(%d+) ttl=(%d+) process=(.*)$'
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
local function holder(state, owner) return match(state, owner, HOLDS) end
local function waiter(state, owner) return match(state, owner, WAITS) end
local function process(state, owner) return select(6, holder(state, owner)) or '' end
local function write(state, owner, record)
  local fields = state.fields
  state.records[owner] = record
  if not fields then state.fields = { owner, record } return end
  fields[#fields + 1], fields[#fields + 2] = owner, record
end
local function hold(state, owner, depth, weight, mints, fence, abandoned, told)
  write(state, owner, 'holds depth=' .. depth .. ' weight=' .. weight .. ' mints=' .. mints .. ' fence=' .. fence
    .. ' abandoned=' .. abandoned .. ' process=' .. told)
end
local function remove(state, owner)
  if not state.records[owner] then fetch(state, { owner }) end
  if state.records[owner] ~= '' then write(state, owner, '') end
  local ended = state.ended or {}
  state.ended, ended[#ended + 1] = ended, owner
end
-- holders: how the owners of a name come, change and end. Follows record.lua.
-- A holder that minted a fence and did not end cleanly leaves it `abandoned`.
-- If a command is denied: it reads only, so nothing was changed.
local function score(state, owner, ends)
  local scores, at = state.scores, text(ends)
  if not scores then state.scores = { at, owner, [owner] = ends } return end
  scores[owner], scores[#scores + 1], scores[#scores + 2] = ends, at, owner
end
local function grant(state, owner, depth, ttl, weight, mints, floor, process)
  local abandoned, highest, fence = state.abandoned, tonumber(floor), state.fence
  if highest >= 2 ^ 53 then highest = 0 end -- no fence is that great
  local serial, token = math.max(state.serial + 1, NOW_US), math.max(fence + 1, highest + 1, NOW_US)
  state.serial, state.process = text(serial), process
  if mints == '1' or fence == '0' then fence = token == serial and state.serial or text(token) end
  if mints == '1' then state.abandoned = '0' end
  state.longest = math.max(state.holders + state.waiters > 0 and state.longest or 0, ttl)
  state.fence, state.used, state.holders = fence, state.used + weight, state.holders + 1
  hold(state, owner, depth, weight, mints, fence, abandoned, process)
  score(state, owner, clock(state) + ttl)
  return { 'granted', fence, ttl, abandoned, state.capacity }
end
local function drop(state, owner, weight, abandoned)
  state.used, state.holders = state.used - weight, state.holders - 1
  if abandoned then state.abandoned = '1' end
  remove(state, owner)
end
local function extend(state, owner, ttl)
  local now, stored = clock(state), state.scores and state.scores[owner] or redis.call('ZSCORE', state.order, owner) or 0
  local ends = math.max(now + ttl, stored)
  state.longest = math.max(state.longest, ttl)
  score(state, owner, ends)
  return ends - now
end
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
  state.new = known == 0 -- whatever the order then has is void
  if not state.fresh and redis.call('HLEN', state.key) ~= size
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
  if not first or tonumber(first) > clock(state) then return end
  local over = redis.call('ZRANGEBYSCORE', state.order, '-inf', text(clock(state)), 'LIMIT', 0, room)
  fetch(state, over)
  room, state.cut = room - #over, #over == room
  for _, owner in ipairs(over) do
    local _, weight, mints = holder(state, owner)
    if weight and not (state.scores and state.scores[owner]) then drop(state, owner, weight, mints == '1') else leave(state, owner) end
  end
end
-- turn: who comes next. Follows prune.lua.
-- Tells a manager 'admitted <owner> <serial> <fence> <ms from its last sign of life> <abandoned> <capacity> <key>'.
-- Who is told may be frozen, so that grant lasts only as long as its owner counts as alive, until it is renewed.
-- If `room` is used up, `cut` says so, and the first in line is told 'refresh <owner>': its request continues the work.
-- If a command is denied: it reads only, so nothing was changed.
local function admit(state, head, asks, alive, lasts, ttl, ...)
  local granted = grant(state, head, '0', asks and tonumber(ttl) or math.min(ttl, alive - clock(state)), ...)
  state.longest = math.max(state.longest, ttl)
  if asks then return end
  tell(state, head, 'admitted', head, state.serial, granted[2], lasts, granted[4], text(state.capacity), state.key)
end
local function settle(state)
  local heads, step = { 1 }, 1
  prune(state)
  while heads[1] and state.waiters > 0 and state.shut <= clock(state) do
    heads = redis.call('ZRANGEBYSCORE', state.order, FIRST, '+inf', 'LIMIT', state.at or 0, math.min(step, room + 1))
    fetch(state, heads)
    for _, head in ipairs(heads) do
      if state.waiters == 0 then return end
      local _, alive, lasts, weight, mints, floor, ttl, process = waiter(state, head)
      local live = alive and tonumber(alive) > clock(state) and tonumber(weight) <= state.capacity
      local full = live and state.used + weight > state.capacity
      local asks = state.asking and state.asking[head]
      state.cut = state.cut or (room == 0 and not full)
      if state.cut and (full or room == 0) and not asks then tell(state, head, 'refresh', head) end
      if full or room == 0 then return end
      state.at, room, step = (state.at or 0) + 1, room - 1, 2 * step
      leave(state, head)
      if live then admit(state, head, asks, alive, lasts, ttl, weight, mints, floor, process) end
    end
  end
end
-- changes: the fields to write of a name, with their values: of owners, and of the name itself. Follows record.lua.
-- What lets nobody in makes no hash.
-- If a command is denied: it reads only, so nothing was changed.
local function changes(state)
  local kept, fields = state.kept, state.fields
  if state.fresh and not state.grows then return nil end
  for at = state.fresh and 1 or 2, #FIELDS do
    local value, was = state[FIELDS[at]] or VERSION, kept[at] or at > ALWAYS and '0'
    local number = type(value) == 'number'
    if not was or value ~= (number and 0 + was or was) then
      fields = fields or {}
      fields[#fields + 1], fields[#fields + 2] = FIELDS[at], number and text(value) or value
    end
  end
  return fields
end
-- close: writes what changed in a name, and then announces it. Follows turn.lua.
-- One HSET changes the holders and how much is held: a name is never fuller than its holders make it.
-- If a command is denied: before that HSET only the order has changed, which may be ahead of the hash; after it
-- all is done, and ended owners may be left over. The next request trusts the hash, and repairs either.
local function close(state, clean_ttl)
  local order, ended, idle, ms = state.scores, nil, state.holders + state.waiters == 0, lasting(state)
  if state.ended then
    for _, owner in ipairs(state.ended) do
      if state.records[owner] == '' then
        ended = ended or {}
        ended[#ended + 1] = owner
      end
    end
  end
  local anew = idle or state.expires < clock(state) + ms - GRACE / 2 -- so that few requests write an expiry
  if anew and not idle then state.expires = clock(state) + ms end
  local fields = changes(state)
  ms = ms > 0 + DAY and text(ms) or DAY
  if clean_ttl and idle and state.abandoned == '0' and state.resized == '0' then ms = clean_ttl end
  -- At the memory limit the first write decides: only a write that adds data is refused there.
  if not state.grows and (order or fields or ended) then
    if anew then redis.call('PEXPIRE', state.key, ms) else redis.pcall('HDEL', state.key, '') end
  end
  if order then redis.call('ZADD', state.order, unpack(order)) end
  if anew and (order or state.joined) and not tonumber(redis.pcall('PEXPIRE', state.order, ms)) then
    if state.new then redis.pcall('DEL', state.order) end -- otherwise it would have no expiry
    redis.call('PEXPIRE', state.order, ms)
  end
  if fields then redis.call('HSET', state.key, unpack(fields)) end
  if anew and state.grows then redis.call('PEXPIRE', state.key, ms) end
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
  local owner, ttl, _, _, weight, mints, floor, _, number, liveness, process = unpack(ARGV, a, a + 10)
  join(state, owner, number, 'until=' .. text(clock(state) + liveness) .. ' lasts=' .. text(math.min(ttl, liveness))
    .. ' weight=' .. weight .. ' mints=' .. mints .. ' floor=' .. floor .. ' ttl=' .. ttl .. ' process=' .. process)
end
local function arrive(k, a, owners)
  local state, owner = open(k, ARGV[a + 7], owners), ARGV[a]
  prune(state)
  fit(state, ARGV[a + 7])
  local waits = waiter(state, owner)
  if not waits and redis.call('EXISTS', KEYS[k + 2]) == 1 then return { 'finished' } end
  -- An owner that comes back, forgotten or with an expired grant, may be the first in line.
  if waits or (tonumber(ARGV[a + 8]) > 0 and not holder(state, owner)) then enter(state, a) end
end
local function decide(k, a)
  local owner, ttl, depth, fence, weight, mints, floor, capacity, number, _, process = unpack(ARGV, a, a + 10)
  local state = open(k)
  local count, held, minted, token, abandoned, told = holder(state, owner)
  if count and fence ~= '0' and fence ~= token then return { 'lost', 'taken_over' } end
  if count then
    if tonumber(depth) > math.max(1, count) then
      -- A writer that also reads weighs more than all; no one else gets more by nesting.
      local more = state.holders == 1 and tonumber(held) >= state.capacity and math.max(held, weight) or held
      state.used = state.used + more - held
      hold(state, owner, depth, text(more), minted, token, abandoned, told)
    end
    return { 'granted', token, extend(state, owner, tonumber(ttl)), abandoned, state.capacity }
  end
  if depth ~= '1' then return { 'lost', gone(state, weight) } end
  if tonumber(weight) > fit(state, capacity) then return { 'impossible', state.capacity } end
  if state.waiters == 0 and state.shut <= clock(state) and state.used + weight <= state.capacity then
    state.grows = true
    return grant(state, owner, depth, tonumber(ttl), weight, mints, floor, process)
  end
  if number ~= '-1' and not waiter(state, owner) then enter(state, a) end
end
-- acquire: grants a name to an owner, queues it, or repeats what it has; one answer per request.
-- KEYS    name (2), tombstone of the owner; repeated
-- ARGV    channel of managers; then owner, ttl ms, depth, fence (0: not nested), weight, mints, floor, capacity,
--         queue number (0: a new one, -1: do not queue), liveness ms, process; repeated
-- returns a list of {'granted', fence, pttl, abandoned, capacity} | {'refused', pttl, fence, process of a holder}
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
