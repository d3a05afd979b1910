-- name: one name of the family as its scripts see it, and what they change of it. Stands in front of each of them.
-- KEYS    two a name: hash ('state' -> what close.lua writes, owner -> record), order (ZSET owner -> score)
-- A holder's record is 'h depth weight mints fence abandoned', its score the server's ms when its time is over; a
-- waiter's 'w number alive-until provisional weight mints floor ttl metadata', its score that number, FIRST or more.
-- If a command is denied: it reads only, so nothing was changed.
local DAY, GRACE, FIRST, time, names = '86400000', 60 * 1000, '1000000000000000', redis.call('TIME'), {}
local NOW_US, NOW = time[1] * 1000000 + time[2], time[1] * 1000 + math.floor(time[2] / 1000)
local room = 250 -- how many may still come and go in this script: a longer one would stop the server
local function text(number) return string.format('%.0f', number) end
local function look(k, capacity, owners)
  local records, known = {}, redis.call('HMGET', KEYS[k], 'state', unpack(owners))
  for i, owner in ipairs(owners) do records[owner] = known[i + 1] or '' end
  local state = known[1] or '0 0 0 0 0 ' .. capacity .. ' 0 0 0 0 '
  local used, holders, waiters, longest, shut, most, resized, dirty, last =
    string.match(state, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d) (%d) (.*)$')
  local name = {
    key = KEYS[k], order = KEYS[k + 1], state = state, used = 0 + used, holders = 0 + holders, waiters = 0 + waiters,
    longest = 0 + longest, shut = 0 + shut, capacity = 0 + most, resized = resized, dirty = dirty, last = last,
    records = records,
  }
  if not known[1] then name.fresh = true end
  return name
end
local function latest(name) return string.match(name.last, '^(%d+) (%d+) (.*)$') end -- serial, fence, metadata
