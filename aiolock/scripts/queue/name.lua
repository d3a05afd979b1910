-- name: one name of the family as its scripts see it, and what they change of it. Stands in front of each of them.
-- KEYS    two a name: hash ('state' -> `spell`, owner -> record), order (ZSET owner -> score)
-- A holder's record is 'h depth weight mints fence abandoned', its score the server's ms when its time is over; a
-- waiter's 'w ticket alive-until brief weight mints floor ttl metadata', and its ticket, which is FIRST or more.
-- If a command is denied: it reads only, so nothing was changed.
local DAY, GRACE, FIRST, time, names = 24 * 3600 * 1000, 60 * 1000, '1000000000000000', redis.call('TIME'), {}
local NOW_US, NOW = time[1] * 1000000 + time[2], time[1] * 1000 + math.floor(time[2] / 1000)
local room = 250 -- how many may still come and go in this script: a longer one would stop the server
local function text(number) return string.format('%.0f', number) end
local function spell(name)
  local numbers = string.format('%.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f ', name.used, name.holders, name.waiters,
    name.longest, name.shut, name.capacity, name.serial, name.fence)
  return numbers .. name.resized .. ' ' .. name.dirty .. ' ' .. name.metadata
end
local function fetch(name, owners)
  local new = {}
  for _, owner in ipairs(owners) do if not name.records[owner] then new[#new + 1] = owner end end
  local found = new[1] and redis.call('HMGET', name.key, unpack(new))
  for i, owner in ipairs(new) do name.records[owner] = found[i] or '' end
end
local function look(k, capacity, owners)
  local records, known = {}, redis.call('HMGET', KEYS[k], 'state', unpack(owners))
  for i, owner in ipairs(owners) do records[owner] = known[i + 1] or '' end
  local state = known[1] or '0 0 0 0 0 ' .. capacity .. ' 0 0 0 0 '
  local used, holders, waiters, longest, shut, most, serial, fence, resized, dirty, metadata =
    string.match(state, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d) (%d) (.*)$')
  return {
    key = KEYS[k], order = KEYS[k + 1], known = known[1], state = state, used = tonumber(used), holders = tonumber(holders),
    waiters = tonumber(waiters), longest = tonumber(longest), shut = tonumber(shut), capacity = tonumber(most),
    serial = tonumber(serial), fence = tonumber(fence), resized = resized, dirty = dirty, metadata = metadata,
    records = records, fields = {}, scored = {}, scores = {}, ended = {}, told = {}, asking = {}, at = 0,
  }
end
local function match(name, owner, pattern)
  if not name.records[owner] then fetch(name, { owner }) end
  return string.match(name.records[owner], pattern)
end
local function holder(name, owner) return match(name, owner, '^h (%d+) (%d+) (%d) (%d+) (%d)$') end
local function waiter(name, owner) return match(name, owner, '^w (%d+) (%d+) (%d+) (%d+) (%d) (%d+) (%d+) (.*)$') end
