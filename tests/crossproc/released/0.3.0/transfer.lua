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
-- clock: the server's time, read once: `time` is {s, µs}, `now` is ms.
-- returns nothing
-- If a command is denied: nothing was changed.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- transfer_local: hands a name on within a process whose turn continues. Follows version and clock, and precedes all other
-- files that define functions. All other cases are left to transfer.
-- KEYS    as transfer
-- ARGV    as transfer
-- returns 'granted <fence> <pttl> <abandoned>' | 'finished', or continues
-- If a command is denied: nothing was changed.
if redis.call('EXISTS', KEYS[5]) == 1 then return 'finished' end
local owner, next, ttl = ARGV[1], ARGV[3], tonumber(ARGV[4])
local state = redis.pcall('HMGET', KEYS[1], 'version', 'owner', 'fence', 'abandoned', 'depth', 'expires')
local held = state[2] == owner and state[3] == ARGV[2] and state[1] == VERSION
if held and ARGV[7] == '2' then
  held = tonumber(state[6]) > now or (tonumber(redis.pcall('PTTL', KEYS[1])) or 0) > 86400000
end
local head, number
if held then head, number = unpack(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')) end
local over = head and (ARGV[7] == '1' or (ARGV[7] == '0' and string.find(head, ':[f+]')))
local abandoned = state[5] == '0' and state[4] or '0'
if held and not over and not ARGV[11] and not (head and string.find(next, ':f', 1, true)) then
  local floor = tonumber(ARGV[5]) < 2 ^ 53 and ARGV[5] or 0 -- no fence is greater
  local least = math.max(ARGV[2], floor) + 1
  local is_now = time[1] * 1000000 + time[2] > least -- as nearly always, and then the text is cheap
  local fence = is_now and string.format('%s%06d', time[1], time[2]) or string.format('%.0f', least)
  if redis.pcall('PEXPIRE', KEYS[1], string.format('%.0f', ttl + 86400000)) == 1 then -- first, as in state
    redis.call('HSET', KEYS[1], 'owner', next, 'depth', '1', 'fence', fence, 'before', ARGV[2], 'abandoned', abandoned,
      'expires', string.format('%.0f', now + ttl), 'process', ARGV[6])
    return 'granted ' .. fence .. ' ' .. ARGV[4] .. ' ' .. abandoned
  end
end
-- transfer_pass: passes a name on to the first in its queue, if that lives and hears, as is usual at the end of a turn.
-- Follows transfer_local, and precedes all files that define functions. All other cases are left to transfer.
-- KEYS    as transfer
-- ARGV    as transfer
-- returns 'passed <number> <pttl>', or continues: it changed nothing that transfer does not do again
-- If a command is denied: see settle and join. A granted owner that could not leave the queue does when it ends.
if over and head ~= next and head ~= owner and not ARGV[11] then
  local queue, alive, manager = KEYS[2], KEYS[3], string.match(head, '^[^:]*')
  local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
  local known, process = string.match(redis.call('HGET', alive, manager) or '', '^(%d+)%+ ?(.*)$')
  local most = known and string.match(head, '~(%d+)$')
  if most then known = string.format('%.0f', math.min(known, now + most)) end
  local left, ms, us = (known or 0) - now, math.max(60000, 20 * ARGV[9]), time[1] * 1000000 + time[2]
  local fence = math.max(ARGV[2], tonumber(ARGV[5]) < 2 ^ 53 and ARGV[5] or 0) + 1 -- no fence is greater
  local place = math.max(last + 1, us)
  if left > 0 and math.floor(last / ms / 250) == math.floor(place / ms / 250) then
    local clock = string.format('%s%06d', time[1], time[2]) -- cheap text, as nearly always
    fence = us > fence and clock or string.format('%.0f', fence)
    local told = 'granted ' .. head .. ' ' .. fence .. ' ' .. abandoned .. ' ' .. KEYS[1]
    local hears = redis.pcall('PUBSUB', 'NUMSUB', ARGV[8] .. manager)[2] ~= 0
    hears = hears and redis.pcall('PEXPIRE', KEYS[1], string.format('%.0f', left + 86400000)) == 1 -- as in state
    if hears then
      redis.call('HSET', KEYS[1], 'owner', head, 'depth', '0', 'fence', fence, 'before', number, 'abandoned', abandoned,
        'expires', known, 'process', process)
    end
    if hears and redis.pcall('PUBLISH', ARGV[8] .. manager, told) ~= 0 then
      local alone, lives = last == number, string.format('%.0f', now + ARGV[9]) .. (ARGV[10] == '1' and '+' or '')
      lives = lives .. ' ' .. string.match(ARGV[6], '^[^\n]*')
      if redis.call('HSET', alive, string.match(next, '^[^:]*'), lives) == 1 or alone then
        redis.call('PEXPIRE', alive, string.format('%.0f', alone and ms or math.max(ms, redis.call('PTTL', alive))))
      end
      place = place == us and clock or string.format('%.0f', place)
      if redis.call('ZADD', queue, 'NX', place, next) == 0 then place = redis.call('ZSCORE', queue, next) end
      redis.call('ZREM', queue, head)
      if alone then redis.call('PEXPIRE', queue, string.format('%.0f', ms)) end
      return string.format('passed %s %.0f', place, left)
    end
  end
end
-- state: a name as a table: what its hash says, and how that changes. Follows version and clock. KEYS[at] is its key.
-- A name is `live` while a hold on it lasts. Numbers stay text, except `expires`: when the hold ends by the clock that it
-- was written by. The key lasts a day longer, by that of whoever has it now. A free name keeps its fence, and whether its
-- next holder is told `abandoned`.
-- If a command is denied: a write raises, and the state is as it was, or free.
local DAY = 86400000
local function read(at)
  local kept = redis.pcall('HMGET', KEYS[at], 'version', 'owner', 'fence', 'before', 'depth', 'abandoned', 'expires', 'process')
  check(KEYS[at], kept)
  local name = { at = at, owner = kept[2] or '', fence = kept[3] or '0', before = kept[4] or '0', depth = kept[5] or '0' }
  name.abandoned, name.expires, name.process = kept[6] or '0', tonumber(kept[7] or 0), kept[8] or ''
  local left = name.owner ~= '' and name.expires <= now and tonumber(redis.pcall('PTTL', KEYS[at])) or 0
  if left > DAY then name.expires = now + left - DAY end
  name.live = name.expires > now
  return name
end
-- Ends the hold. `abandoned`: what the next holder is told; by default what an expiry means. Not written yet.
local function vacate(name, abandoned)
  name.abandoned = abandoned or (name.owner ~= '' and name.depth ~= '0' and '1') or name.abandoned
  name.ended, name.owner, name.depth, name.expires, name.process, name.live = name.owner, '', '0', 0, '', false
end
-- PEXPIRE is first: at the memory limit only the first write of a script is refused, and it never is.
local function write(n, px)
  local key, ms = KEYS[n.at], string.format('%.0f', px or DAY + math.max(0, n.expires - now))
  local known = redis.call('PEXPIRE', key, ms) == 1
  if n.owner ~= '' then
    redis.call('HSET', key, 'version', VERSION, 'owner', n.owner, 'depth', n.depth, 'fence', n.fence, 'before', n.before,
      'abandoned', n.abandoned, 'expires', string.format('%.0f', n.expires), 'process', n.process)
  else
    local says = n.abandoned == '1' or n.minted
    if says then redis.call('HSET', key, 'version', VERSION, 'fence', n.fence, 'abandoned', n.abandoned) end
    redis.call('HDEL', key, 'owner', 'depth', 'before', 'expires', 'process', says and 'owner' or 'abandoned')
  end
  if not known then redis.call('PEXPIRE', key, ms) end
end
-- grant: gives a free name to an owner. Follows state.
-- Its fence is minted once, however many owners are tried. `number`: its queue number, which stands in place of the
-- fence before until its process asks.
-- If a command is denied: see state.
local function grant(name, owner, depth, expires, process, floor, number)
  if not name.minted then
    local known = math.max(name.fence, tonumber(floor) < 2 ^ 53 and floor or 0) -- no fence is greater
    name.last_fence, name.minted = name.fence, true
    name.fence = string.format('%.0f', math.max(known + 1, time[1] * 1000000 + time[2]))
  end
  name.before = number or name.last_fence
  name.owner, name.depth, name.expires, name.process, name.live = owner, depth, expires, process, true
  write(name)
end
-- crowd: ends the places of those at the front of a queue who live but do not hear, if a request saw nobody else.
-- Their processes come back with their numbers. Then the last in the queue, who came most recently and so most likely
-- hears, is told to ask: its request continues the work.
-- KEYS    state, queue, alive; from KEYS[at]
-- returns nothing
-- If a command is denied: nothing was changed, or nobody is told, and the next request on the name continues.
local function disperse(name, channel, deaf)
  local queue = KEYS[name.at + 1]
  if deaf[1] then redis.call('ZREM', queue, unpack(deaf)) end
  local last = redis.call('ZRANGE', queue, -1, -1)[1]
  if last then redis.pcall('PUBLISH', channel .. string.match(last, '^[^:]*'), 'refresh ' .. last) end
end
-- settle: gives a free name to the first in its queue that lives and hears. Follows crowd.
-- `channel` is that of managers, without their ids; `me` is the owner that asks, if it needs no message.
-- KEYS    state, queue, alive; from KEYS[at]
-- returns that one, with its grant written and announced; or `me`, whose request this is: it is first, and has to be
--         granted and taken from the queue; or nil, no one is; or '', unknown yet: too many are dead or do not hear
-- It has the name while its manager counts as alive, at most for the ms that its id ends with. A dead entry leaves the
-- queue; one that lives but does not hear is passed over, and keeps its place: but see crowd.
-- If a command is denied: PUBLISH and PUBSUB count as heard. ZREM: who was told leaves the queue when it ends.
local function settle(name, channel, me, floor)
  local queue, alive, deaf, answer = KEYS[name.at + 1], KEYS[name.at + 2], {}, ''
  for _ = 1, 1000 do
    local entry, number = unpack(redis.call('ZRANGE', queue, #deaf, #deaf, 'WITHSCORES'))
    if not entry or entry == me then
      answer = entry
      break
    end
    local manager = string.match(entry, '^[^:]*')
    local known, counted, process = string.match(redis.call('HGET', alive, manager) or '0', '^(%d+)(%+?) ?(.*)$')
    if tonumber(known) <= now or entry == name.ended then
      redis.call('ZREM', queue, entry)
    elseif counted ~= '' and redis.pcall('PUBSUB', 'NUMSUB', channel .. manager)[2] == 0 then
      deaf[#deaf + 1] = entry -- announced, it would still be heard at replicas and other nodes
    else
      local most = math.min(known, now + (string.match(entry, '~(%d+)$') or math.huge))
      grant(name, entry, '0', most, process, floor, number) -- before it is announced: the new holder asks at once
      local told = string.format('granted %s %s %s ', entry, name.fence, name.abandoned) .. KEYS[name.at]
      if redis.pcall('PUBLISH', channel .. manager, told) ~= 0 or counted == '' then
        redis.call('ZREM', queue, entry)
        return entry
      end
      deaf[#deaf + 1] = entry
    end
  end
  if answer == '' then disperse(name, channel, deaf) end
  if name.live then
    vacate(name, name.abandoned)
    write(name)
  end
  return answer
end
-- alive: records that a manager is alive, and which process it is of. Follows clock.
-- KEYS    state, queue, alive; from KEYS[at]
-- returns whether this was news
-- If a command is denied: nothing was changed, or fields of managers that are gone stay.
local function lives(name, owner, liveness, counted, metadata)
  local known = string.format('%.0f%s ', now + liveness, counted == '1' and '+' or '')
  known = known .. string.match(metadata, '^[^\n]*') -- its first line
  return redis.call('HSET', KEYS[name.at + 2], string.match(owner, '^[^:]*'), known) == 1
end
-- Never shortens, unless the key is `new`: a manager with a longer liveness refreshes less often.
local function keep(key, ms, new)
  redis.call('PEXPIRE', key, string.format('%.0f', new and ms or math.max(ms, redis.call('PTTL', key))))
end
-- If many managers are gone, forgets some of them: all at once would block the server.
local function sweep(name)
  local alive = KEYS[name.at + 2]
  if redis.call('HLEN', alive) <= redis.call('ZCARD', KEYS[name.at + 1]) + 64 then return end
  local some = redis.call('HSCAN', alive, time[2], 'COUNT', 50)[2] -- from anywhere: other requests sweep elsewhere
  for i = 1, #some, 2 do
    if tonumber(string.match(some[i + 1], '^%d+')) <= now then redis.call('HDEL', alive, some[i]) end
  end
end
-- join: puts an owner at the end of a queue, unless it is in it. Follows alive.
-- KEYS    state, queue, alive; from KEYS[at]
-- `liveness` ms is how long its manager counts as alive from now; below 0: another request just said so. `metadata` is
-- what it says of itself. `number`: the one it had; otherwise it gets the next. `name.last` is the last number, '0' if
-- the queue is empty, nil if unread.
-- The keys' expiry is extended when the queue is new, and when a quarter of it is over, as the known numbers tell.
-- returns its number; `name.news`: that its manager lives was news
-- If a command is denied: nothing was changed, or only that its manager lives; so what may be denied comes before ZADD,
-- and what has no expiry is taken back.
local function join(name, owner, liveness, counted, metadata, number)
  local queue, alive, ms = KEYS[name.at + 1], KEYS[name.at + 2], math.max(60000, 20 * math.abs(liveness))
  name.last = name.last or redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2] or '0'
  local last = name.last
  if (number or '') == '' then number = string.format('%.0f', math.max(last + 1, time[1] * 1000000 + time[2])) end
  local unknown = liveness > 0 and lives(name, owner, liveness, counted, metadata)
  local new, later = last == '0', math.floor(last / ms / 250) < math.floor(number / ms / 250)
  if (new or later or unknown) and not pcall(keep, alive, ms, new) then
    if unknown then redis.call('HDEL', alive, string.match(owner, '^[^:]*')) end
    keep(alive, ms, new)
  end
  if unknown then pcall(sweep, name) end
  local place = redis.call('ZADD', queue, 'NX', number, owner) == 1 and number or redis.call('ZSCORE', queue, owner)
  if new or later then keep(queue, ms, new) end
  name.last = string.format('%.0f', math.max(last, number))
  name.news = unknown
  return place
end
-- Takes out one that is granted. If it joined only for that, its manager does not know that it did, and would not take
-- back that it lives: see depart. It `stays` known for others in the queue, or if it was there before.
local function leave(name, owner, stays)
  redis.call('ZREM', KEYS[name.at + 1], owner)
  name.last = nil -- for the next the queue may be new
  if name.news and not stays then redis.pcall('HDEL', KEYS[name.at + 2], string.match(owner, '^[^:]*')) end
end
-- own: what an owner has becomes, or stays, a hold for at least `ttl` ms. Follows state.
-- A grant from the queue gets a greater fence if its manager knows of one that is as great (`floor`), and lasts for the
-- ttl, however long it would have lasted. A hold keeps its fence, and is never shortened.
-- returns nothing
-- If a command is denied: nothing was changed.
local function own(name, ttl, metadata, floor)
  local known, given, ends = tonumber(floor), name.depth == '0', now + ttl
  name.minted, name.last_fence = not given or known >= 2 ^ 53 or tonumber(name.fence) >= known, name.before
  if not given then ends = math.max(name.expires, ends) end
  grant(name, name.owner, given and '1' or name.depth, ends, metadata, floor)
end
-- transfer: ends an owner and hands its name on, in its process or, if its turn is over, to the next in the queue.
-- KEYS    state, queue, alive, tombstone of the owner, tombstone of the next
-- ARGV    owner, fence, next, ttl ms, floor, metadata, over (1; 0: only if the first in the queue has the fair rule;
--         2: no, and the owner's time must not be over), channel of managers, liveness ms, 1 if its manager subscribes;
--         if tainted: tombstone ttl ms
-- returns 'granted <fence> <pttl> <abandoned>' | 'passed <number> <pttl>': another has it, and the next is in the queue
--         | 'missing <deleted or taken_over>' | 'finished'
-- The owner must have ended cleanly. The next is new, or a task with the fair rule that already waits. A copy of the
-- request reads what became of the next; if the queue has granted it the name, that becomes a hold: see own.
-- If a command is denied: see settle and join; the owner holds it, or the next, or the one from the queue.
local name, answer = read(1), nil
if held then
  vacate(name, name.depth == '0' and name.abandoned or '0') -- a grant that nobody asked for began nothing
  local first = over and settle(name, ARGV[8], next, ARGV[5]) or ''
  if first == '' or first == next then
    grant(name, next, '1', now + ttl, ARGV[6], ARGV[5])
    if first == next or (head and string.find(next, ':f', 1, true)) then redis.call('ZREM', KEYS[2], next) end
  else
    answer = join(name, next, tonumber(ARGV[9]), ARGV[10], ARGV[6])
  end
elseif name.live and name.owner == next then
  own(name, tonumber(ARGV[4]), ARGV[6], ARGV[5])
else
  answer = redis.call('ZSCORE', KEYS[2], next) or (name.live and 'missing taken_over' or 'missing deleted')
end
if ARGV[11] then redis.pcall('SET', KEYS[4], 1, 'PX', ARGV[11]) end
local pttl = math.max(0, name.expires - now)
if not answer then return string.format('granted %s %.0f %s', name.fence, pttl, name.abandoned) end
return tonumber(answer) and string.format('passed %s %.0f', answer, pttl) or answer
