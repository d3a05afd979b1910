-- state: a name as a table: what its state says, and how that changes. Follows clock.
-- KEYS    state; KEYS[at]
-- A name is `live` while a hold on it lasts. `text` is the answer of GET. Numbers stay text, except `expires`.
-- If a command is denied: a write raises, and the state is as it was.
local function read(at, text)
  local name = { at = at }
  name.holder, name.fence, name.before, name.depth, name.dirty, name.expires, name.metadata =
    string.match(text or '- 0 0 0 0 0 ', '^(%S+) (%d+) (%d+) (%d+) (%d) (%d+) (.*)$')
  name.expires = tonumber(name.expires or error('WRONGTYPE the key holds text that is no state of a lock'))
  name.live = name.expires > now
  return name
end
-- Ends the hold. `dirty`: what the next holder is told; by default what an expiry means. Not written yet.
local function vacate(name, dirty)
  name.dirty = dirty or (name.holder ~= '-' and name.depth ~= '0' and '1') or name.dirty
  name.ended, name.holder, name.depth, name.expires, name.metadata, name.live = name.holder, '-', '0', 0, '', false
end
local function write(name, px)
  local n, expires = name, string.format('%.0f', name.expires)
  local text = table.concat({ n.holder, n.fence, n.before, n.depth, n.dirty, expires, n.metadata }, ' ')
  px = string.format('%.0f', px or math.max(86400000, name.expires - now + 60000))
  if redis.pcall('SET', KEYS[name.at], text, 'PX', px).err then
    redis.call('PEXPIRE', KEYS[name.at], px) -- at the memory limit only the first write of a script is refused
    redis.call('SET', KEYS[name.at], text, 'PX', px)
  end
end
-- Gives a free name to an owner. Its fence is minted once, however many are tried. `number`: its queue number, which
-- replaces the previous fence until the grant is confirmed.
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
