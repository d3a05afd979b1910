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
-- nest: raises an owner's depth, and extends its hold.
-- KEYS    state
-- ARGV    owner, fence, ttl ms, depth
-- returns 'kept <pttl>' | 'missing <deleted or taken_over>'
-- It never lowers or shortens, so a copy of the request changes nothing.
-- If a command is denied: nothing was changed.
local name = read(1)
if name.owner ~= ARGV[1] or name.fence ~= ARGV[2] then
  return name.live and 'missing taken_over' or 'missing deleted'
end
if tonumber(ARGV[4]) > tonumber(name.depth) then name.depth = ARGV[4] end
name.expires = math.max(name.expires, now + ARGV[3])
write(name)
return string.format('kept %.0f', name.expires - now)
