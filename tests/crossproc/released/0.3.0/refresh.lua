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
-- refresh: records that many waiters live, and grants a free name to the first in its queue; judges each alone.
-- KEYS    state, queue, alive; repeated
-- ARGV    channel of managers; then owner, liveness ms, 1 if its manager subscribes, its process; repeated
-- returns an answer per name: 'granted <fence> <pttl> <abandoned>' | 'queued <number> <rank> <pttl> <fence> <metadata>' | 'gone'
--         | 'error …'
-- It never queues anyone. What it grants lasts like every grant from a queue: see settle. PEXPIRE comes before HSET: at
-- the memory limit the first write decides.
-- If a command is denied: that name's answer is the error; see settle.
local function refresh(at, owner, liveness, counted, process)
  local name = read(at)
  if not (name.live and name.owner == owner) then
    local queue, first, ms = KEYS[at + 1], nil, math.max(60000, 20 * liveness)
    local number = redis.call('ZSCORE', queue, owner)
    if not number then return 'gone' end
    keep(queue, ms)
    lives(name, owner, liveness, counted, process)
    keep(KEYS[at + 2], ms)
    sweep(name)
    if not name.live then
      vacate(name)
      first = settle(name, ARGV[1], owner, '0')
    end
    if first ~= owner then
      local rank, pttl = redis.call('ZRANK', queue, owner) + 1, math.max(0, name.expires - now)
      return string.format('queued %s %d %.0f %s ', number, rank, pttl, name.fence) .. name.process
    end
    grant(name, owner, '0', now + math.min(liveness, string.match(owner, '~(%d+)$') or liveness), process, '0', number)
    redis.call('ZREM', queue, owner)
  end
  return string.format('granted %s %.0f %s', name.fence, name.expires - now, name.abandoned)
end
local answers = {}
for i = 1, #KEYS / 3 do
  local done, answer = pcall(refresh, 3 * i - 2, ARGV[4 * i - 2], tonumber(ARGV[4 * i - 1]), ARGV[4 * i], ARGV[4 * i + 1])
  -- A caught error is a table on some servers, and text on others.
  answers[i] = done and answer or 'error ' .. (type(answer) == 'table' and answer.err or answer)
end
return answers
