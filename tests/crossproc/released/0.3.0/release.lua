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
-- release_free: frees a name without a queue. Follows version, and precedes all other files that define functions: a
-- script that runs cold pays for those. All other cases are left to release.
-- KEYS    state, queue, alive
-- ARGV    owner, clean state ttl ms, channel of managers
-- returns 'released <fence>', or continues
-- If a command is denied: nothing was changed, but maybe how long a free name is kept.
local owner, head, number = ARGV[1], nil, nil
local state = redis.pcall('HMGET', KEYS[1], 'version', 'owner', 'fence')
local ends = state[2] == owner and state[1] == VERSION and not ARGV[4]
if ends then
  head, number = unpack(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES'))
  if not head then
    redis.call('HDEL', KEYS[1], 'owner', 'depth', 'before', 'abandoned', 'expires', 'process')
    redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
    return 'released ' .. state[3]
  end
end
-- clock: the server's time, read once: `time` is {s, µs}, `now` is ms.
-- returns nothing
-- If a command is denied: nothing was changed.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- release_pass: passes a name on to the first in its queue if that lives and hears, as is usual. Follows release_free and
-- clock, and precedes all other files that define functions. All other cases are left to release.
-- KEYS    state, queue, alive
-- ARGV    owner, clean state ttl ms, channel of managers
-- returns 'released <fence>', or continues: nothing was changed that release does not do again
-- If a command is denied: see settle.
if head and head ~= owner then
  local manager, last = string.match(head, '^[^:]*'), state[3]
  local known, process = string.match(redis.call('HGET', KEYS[3], manager) or '', '^(%d+)%+ ?(.*)$')
  local most = known and string.match(head, '~(%d+)$')
  if most then known = string.format('%.0f', math.min(known, now + most)) end
  local left = (known or 0) - now
  if left > 0 then
    local is_now = time[1] * 1000000 + time[2] > last + 1 -- as nearly always, and then the text is cheap
    local fence = is_now and string.format('%s%06d', time[1], time[2]) or string.format('%.0f', last + 1)
    local channel, px = ARGV[3] .. manager, string.format('%.0f', left + 86400000)
    if redis.pcall('PUBSUB', 'NUMSUB', channel)[2] ~= 0 and redis.pcall('PEXPIRE', KEYS[1], px) == 1 then -- as in state
      redis.call('HSET', KEYS[1], 'owner', head, 'depth', '0', 'fence', fence, 'before', number, 'abandoned', '0',
        'expires', known, 'process', process)
      if redis.pcall('PUBLISH', channel, 'granted ' .. head .. ' ' .. fence .. ' 0 ' .. KEYS[1]) ~= 0 then
        redis.call('ZREM', KEYS[2], head)
        return 'released ' .. last
      end
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
-- release: lowers an owner's depth; at 0 it leaves the name and its queue, and the next in line is granted the name.
-- KEYS    state, queue, alive; tombstone of the owner, if ARGV has more than 3 words
-- ARGV    owner, clean state ttl ms, channel of managers; if not 'clean', 0, 0, '': ending ('clean', 'undone',
--         'dirty', 'declined'), depth left, tombstone ttl ms (0: none), channel to announce the release
-- returns 'released <fence>' | 'kept <pttl>' | 'missing <deleted or taken_over>'
-- 'undone' passes on what the owner was told as abandoned; 'dirty' leaves the name marked as abandoned; 'declined' does
-- as 'undone', but ends only what the queue granted and nobody has asked for.
-- If a command is denied: see settle; the owner holds, or is gone. What follows may fail.
local name, ending, left = read(1), ARGV[4] or 'clean', tonumber(ARGV[5] or 0)
local fence, answer = name.fence, nil
if name.owner ~= owner or (ending == 'declined' and name.depth ~= '0') then
  if left == 0 then redis.call('ZREM', KEYS[2], owner) end
  answer = name.live and 'missing taken_over' or 'missing deleted'
elseif left > 0 then
  if left < tonumber(name.depth) then name.depth = ARGV[5] end
  write(name)
  answer = string.format('kept %.0f', math.max(0, name.expires - now))
else
  vacate(name, ending == 'clean' and '0' or ending == 'dirty' and '1' or name.abandoned)
  if (settle(name, ARGV[3], nil, '0') or '') == '' then
    write(name, name.abandoned == '0' and ARGV[2] or math.max(86400000, ARGV[2]))
  end
  if (ARGV[7] or '') ~= '' then redis.pcall('PUBLISH', ARGV[7], owner .. ' ' .. fence) end
  answer = 'released ' .. fence
end
if left == 0 and (ARGV[6] or '0') ~= '0' then redis.pcall('SET', KEYS[4], 1, 'PX', ARGV[6]) end
return answer
