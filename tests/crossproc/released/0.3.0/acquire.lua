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
-- acquire_own: makes what the queue has granted to the owner a hold. Follows version and clock, and precedes all other
-- files that define functions: a script that runs cold pays for those. All other cases are left to acquire.
-- KEYS    state, queue, alive, tombstone of the owner
-- ARGV    as acquire
-- returns 'granted <fence> <pttl> <abandoned>', or continues
-- If a command is denied: nothing was changed.
local owner, ttl, key = ARGV[1], tonumber(ARGV[2]), KEYS[1]
local state = redis.pcall('HMGET', key, 'version', 'owner', 'fence', 'abandoned', 'depth', 'expires')
local ends, px = string.format('%.0f', now + ttl), string.format('%.0f', ttl + 86400000)
if state[2] == owner and state[1] == VERSION and not ARGV[6] and state[5] == '0' and tonumber(state[6]) > now
  and tonumber(state[3]) >= tonumber(ARGV[3]) and redis.call('EXISTS', KEYS[4]) == 0
  and redis.pcall('PEXPIRE', key, px) == 1 then -- first, as in state
  redis.call('HSET', key, 'depth', '1', 'expires', ends, 'process', ARGV[4])
  return 'granted ' .. state[3] .. ' ' .. ARGV[2] .. ' ' .. state[4]
end
-- acquire_free: grants a free name without a queue. Follows acquire_own, and precedes all files that define functions.
-- All other cases are left to acquire.
-- KEYS    state, queue, alive, tombstone of the owner
-- ARGV    as acquire
-- returns 'granted <fence> <pttl> <abandoned>', or continues
-- HSET is first: at the memory limit no one is let in.
-- If a command is denied: nothing was changed, but for a fence that no one has.
local known = state[1] == VERSION
local busy = known and redis.call('EXISTS', KEYS[4], KEYS[2]) or redis.call('EXISTS', KEYS[4], KEYS[2], key)
if busy == 0 and not state.err and not ARGV[6] and (not state[2] or tonumber(state[6] or 0) <= now) then
  local last, abandoned, over = state[3] or '0', state[4] or '0', true
  if state[2] then -- it has expired: see state
    over = (tonumber(redis.pcall('PTTL', key)) or 0) <= 86400000
    if state[5] ~= '0' then abandoned = '1' end
  end
  if over then
    local floor = tonumber(ARGV[3]) < 2 ^ 53 and ARGV[3] or 0 -- no fence is greater
    local least = math.max(last, floor) + 1
    local is_now = time[1] * 1000000 + time[2] > least -- as nearly always, and then the text is cheap
    local fence = is_now and string.format('%s%06d', time[1], time[2]) or string.format('%.0f', least)
    if not known then redis.call('HSET', key, 'version', VERSION) end
    redis.call('HSET', key, 'owner', owner, 'depth', '1', 'fence', fence, 'before', last,
      'abandoned', abandoned, 'expires', ends, 'process', ARGV[4])
    if redis.pcall('PEXPIRE', key, px) == 1 then return 'granted ' .. fence .. ' ' .. ARGV[2] .. ' ' .. abandoned end
    local new = known and {} or { 'version', 'fence', 'abandoned' } -- would have no expiry
    redis.call('HDEL', key, 'owner', 'depth', 'before', 'expires', 'process', unpack(new))
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
-- acquire: grants a name to an owner, queues the owner, or says who has the name. Follows acquire_free.
-- KEYS    state, queue, alive, tombstone of the owner; then of each that queues behind it
-- ARGV    owner, ttl ms, floor, metadata, channel of managers, followed if it may queue by ' <liveness ms
--         (below 0: already said)> <1 if its manager subscribes>[ <number it had>]'; then '<owner>[ <number it had>]' of
--         each of that manager that queues behind it
-- returns 'granted <fence> <pttl> <abandoned>' | 'queued <number> <rank> <pttl> <fence> <metadata>'
--         | 'refused <pttl> <fence> <metadata>' | 'finished'
-- What the queue has granted becomes a hold: see own. A copy reads its own grant, or finds its place in the queue.
-- If a command is denied: see join and settle. A granted owner that could not leave the queue does when it ends.
local channel, ms, counted, number = string.match(ARGV[5], '^(%S+) ?(%S*) ?(%S*) ?(%d*)$')
local name, liveness = read(1), tonumber(ms) or 0
name.last = busy > 0 and redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2] or '0'
local alone, mine = name.last == '0', name.live and name.owner == owner
local finished = busy > (alone and 0 or 1) -- EXISTS counted the tombstone and the queue
local place, first
if mine and not finished then own(name, ttl, ARGV[4], ARGV[3]) end
if not finished and not mine then
  if liveness ~= 0 and (name.live or not alone) then
    place, liveness = join(name, owner, liveness, counted, ARGV[4], number), -math.abs(liveness)
  end
  if not name.live then
    vacate(name)
    if not alone then first = settle(name, channel, owner, ARGV[3]) end
    mine = not first or first == owner
    if mine then grant(name, owner, '1', now + ttl, ARGV[4], ARGV[3]) end
    if first == owner then leave(name, owner, number ~= '' or ARGV[6]) end
  end
end
local rank = place and not mine and (alone and 1 or redis.call('ZRANK', KEYS[2], owner) + 1)
for i = 6, #ARGV do
  local other, had = string.match(ARGV[i], '^(%S+) ?(%d*)$')
  if redis.call('EXISTS', KEYS[i - 1]) == 0 and other ~= name.owner then
    liveness = join(name, other, liveness, counted, ARGV[4], had) and -math.abs(liveness)
  end
end
if finished then return 'finished' end
if mine then return string.format('granted %s %.0f %s', name.fence, name.expires - now, name.abandoned) end
local pttl = math.max(0, name.expires - now)
if rank then return string.format('queued %s %d %.0f %s ', place, rank, pttl, name.fence) .. name.process end
return string.format('refused %.0f %s ', pttl, name.fence) .. name.process
