-- state: a name as a table: what its state says, and how that changes. Follows clock. KEYS[at] is its key.
-- A name is `live` while a hold on it lasts. `text` is the answer of GET. Numbers stay text, except `expires`: when the
-- hold ends by the clock that it was written by. The key lasts a day longer, by that of whoever has it now.
-- If a command is denied: a write raises, and the state is as it was.
local function read(at, text)
  local name = { at = at }
  name.holder, name.fence, name.before, name.depth, name.dirty, name.expires, name.metadata =
    string.match(text or '- 0 0 0 0 0 ', '^(%S+) (%d+) (%d+) (%d+) (%d) (%d+) (.*)$')
  name.expires = tonumber(name.expires or error('WRONGTYPE the key holds text that is no state of a lock'))
  local left = name.holder ~= '-' and name.expires <= now and tonumber(redis.pcall('PTTL', KEYS[at])) or 0
  if left > 86400000 then name.expires = now + left - 86400000 end
  name.live = name.expires > now
  return name
end
-- Ends the hold. `dirty`: what the next holder is told; by default what an expiry means. Not written yet.
local function vacate(name, dirty)
  name.dirty = dirty or (name.holder ~= '-' and name.depth ~= '0' and '1') or name.dirty
  name.ended, name.holder, name.depth, name.expires, name.metadata, name.live = name.holder, '-', '0', 0, '', false
end
local function write(n, px)
  local text = { n.holder, n.fence, n.before, n.depth, n.dirty, string.format('%.0f', n.expires), n.metadata }
  text, px = table.concat(text, ' '), string.format('%.0f', px or 86400000 + math.max(0, n.expires - now))
  if redis.pcall('SET', KEYS[n.at], text, 'PX', px).err then
    -- At the memory limit only the first write of a script is refused: one that changes nothing.
    redis.call('PEXPIRE', KEYS[n.at], string.format('%.0f', redis.call('PTTL', KEYS[n.at])))
    redis.call('SET', KEYS[n.at], text, 'PX', px)
  end
end
-- Gives a free name to an owner. Its fence is minted once, however many are tried. `number`: its queue number, which
-- replaces the previous fence until its process asks.
local function grant(name, owner, depth, expires, metadata, floor, number)
  if not name.minted then
    local known = math.max(name.fence, tonumber(floor) < 2 ^ 53 and floor or 0) -- no fence is greater
    name.last_fence, name.minted = name.fence, true
    name.fence = string.format('%.0f', math.max(known + 1, time[1] * 1000000 + time[2]))
  end
  name.before = number or name.last_fence
  name.holder, name.depth, name.expires, name.metadata, name.live = owner, depth, expires, metadata, true
  write(name)
end
