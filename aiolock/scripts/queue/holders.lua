-- holders: how the owners of a name come, change and end. Stands behind name.lua.
-- A holder that minted a fence and ended otherwise than cleanly leaves the state dirty.
-- If a command is denied: it reads only, so nothing was changed.
local function write(name, owner, record)
  local fields = name.fields
  name.records[owner], fields[#fields + 1], fields[#fields + 2] = record, owner, record
end
local function score(name, owner, ends)
  local scored = name.scored
  name.scores[owner], scored[#scored + 1], scored[#scored + 2] = ends, text(ends), owner
end
local function remove(name, owner)
  if not name.records[owner] then fetch(name, { owner }) end
  if name.records[owner] ~= '' then write(name, owner, '') end
  name.ended[#name.ended + 1] = owner
end
local function grant(name, owner, ttl, weight, mints, floor, metadata)
  local abandoned, highest = name.dirty, tonumber(floor)
  if highest >= 2 ^ 53 then highest = 0 end -- nobody was given that
  if mints == '1' or name.fence == 0 then name.fence = math.max(name.fence + 1, highest + 1, NOW_US) end
  if mints == '1' then name.dirty = '0' end
  name.longest = math.max(name.holders + name.waiters > 0 and name.longest or 0, ttl)
  name.serial, name.metadata = math.max(name.serial + 1, NOW_US), metadata
  name.used, name.holders = name.used + weight, name.holders + 1
  local token = text(name.fence)
  write(name, owner, 'h 1 ' .. weight .. ' ' .. mints .. ' ' .. token .. ' ' .. abandoned)
  score(name, owner, NOW + ttl)
  return { 'granted', token, ttl, abandoned, name.capacity }
end
local function drop(name, owner, weight, dirty)
  name.used, name.holders = name.used - weight, name.holders - 1
  if dirty then name.dirty = '1' end
  remove(name, owner)
end
local function extend(name, owner, ttl)
  local ends = math.max(NOW + ttl, name.scores[owner] or redis.call('ZSCORE', name.order, owner) or 0)
  name.longest = math.max(name.longest, ttl)
  score(name, owner, ends)
  return ends - NOW
end
