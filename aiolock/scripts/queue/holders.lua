-- holders: how the owners of a name come, change and end. Stands behind record.lua.
-- A holder that minted a fence and ended otherwise than cleanly leaves the state dirty.
-- If a command is denied: it reads only, so nothing was changed.
local function score(name, owner, ends)
  local scores, at = name.scores, text(ends)
  if not scores then name.scores = { at, owner, [owner] = ends } return end
  scores[owner], scores[#scores + 1], scores[#scores + 2] = ends, at, owner
end
local function grant(name, owner, ttl, weight, mints, floor, metadata)
  local abandoned, highest, serial, fence = name.dirty, tonumber(floor), latest(name)
  if highest >= 2 ^ 53 then highest = 0 end -- nobody was given that
  serial = math.max(serial + 1, NOW_US)
  local token, serial_text = math.max(fence + 1, highest + 1, NOW_US), text(serial)
  if mints == '1' or fence == '0' then fence = token == serial and serial_text or text(token) end
  if mints == '1' then name.dirty = '0' end
  name.longest = math.max(name.holders + name.waiters > 0 and name.longest or 0, ttl)
  name.last = serial_text .. ' ' .. fence .. ' ' .. metadata
  name.used, name.holders = name.used + weight, name.holders + 1
  write(name, owner, 'h 1 ' .. weight .. ' ' .. mints .. ' ' .. fence .. ' ' .. abandoned)
  score(name, owner, NOW + ttl)
  return { 'granted', fence, ttl, abandoned, name.capacity }
end
local function drop(name, owner, weight, dirty)
  name.used, name.holders = name.used - weight, name.holders - 1
  if dirty then name.dirty = '1' end
  remove(name, owner)
end
local function extend(name, owner, ttl)
  local ends = math.max(NOW + ttl, name.scores and name.scores[owner] or redis.call('ZSCORE', name.order, owner) or 0)
  name.longest = math.max(name.longest, ttl)
  score(name, owner, ends)
  return ends - NOW
end
