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
  local numbers = { name.used, name.holders, name.waiters, name.longest, name.shut, name.capacity, name.serial, name.fence }
  for i, number in ipairs(numbers) do numbers[i] = text(number) end
  return table.concat(numbers, ' ') .. ' ' .. name.resized .. ' ' .. name.dirty .. ' ' .. name.metadata
end
local function fetch(name, owners)
  local new = {}
  for _, owner in ipairs(owners) do if not name.records[owner] then new[#new + 1] = owner end end
  local found = new[1] and redis.call('HMGET', name.key, unpack(new))
  for i, owner in ipairs(new) do name.records[owner] = found[i] or '' end
end
local function look(k, capacity, owners)
  local name = { key = KEYS[k], order = KEYS[k + 1], records = {}, changed = {}, gone = {}, scores = {}, told = {}, asking = {}, at = 0 }
  fetch(name, { 'state', unpack(owners or {}) })
  local state = name.records.state ~= '' and name.records.state or '0 0 0 0 0 ' .. capacity .. ' 0 0 0 0 '
  local numbers, rest = string.match(state, '^(' .. ('%d+ '):rep(8) .. ')(.*)$')
  local fields = { 'used', 'holders', 'waiters', 'longest', 'shut', 'capacity', 'serial', 'fence' }
  for number in numbers:gmatch('%d+') do name[table.remove(fields, 1)] = tonumber(number) end
  name.resized, name.dirty, name.metadata = rest:match('^(%d) (%d) (.*)$')
  name.state = spell(name)
  return name
end
local function match(name, owner, pattern)
  fetch(name, { owner })
  return string.match(name.records[owner], pattern)
end
local function holder(name, owner) return match(name, owner, '^h (%d+) (%d+) (%d) (%d+) (%d)$') end
local function waiter(name, owner) return match(name, owner, '^w (%d+) (%d+) (%d+) (%d+) (%d) (%d+) (%d+) (.*)$') end
