-- state: the state of a name of the family, as scripts read and change it. Precedes each of them.
-- KEYS    two per name: hash ('state' -> what encode writes, owner -> record), order (ZSET owner -> score)
-- A holder's record is 'h depth weight mints fence abandoned', its score the ms when its time is over; depth 0:
-- the queue granted it, and nobody has renewed it. A waiter's is
-- 'w number alive-until provisional weight mints floor ttl metadata', its score that number, FIRST or more.
-- If a command is denied: it reads only, so nothing was changed.
local DAY, GRACE, FIRST, time, states = '86400000', 60 * 1000, '1000000000000000', redis.call('TIME'), {}
local NOW_US, NOW = time[1] * 1000000 + time[2], time[1] * 1000 + math.floor(time[2] / 1000)
local room = 250 -- how many may still come and go in this script: a longer one would block the server
local function text(number) return string.format('%.0f', number) end
local function read_state(k, capacity, owners)
  local records, known = {}, redis.call('HMGET', KEYS[k], 'state', unpack(owners))
  for i, owner in ipairs(owners) do records[owner] = known[i + 1] or '' end
  local before = known[1] or '0 0 0 0 0 0 ' .. capacity .. ' 0 0 0 0 '
  local used, holders, waiters, longest, shut, expires, most, resized, dirty, last =
    string.match(before, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d) (%d) (.*)$')
  local state = {
    key = KEYS[k], order = KEYS[k + 1], before = before, used = 0 + used, holders = 0 + holders, waiters = 0 + waiters,
    longest = 0 + longest, shut = 0 + shut, expires = expires, capacity = 0 + most, resized = resized, dirty = dirty, last = last,
    records = records,
  }
  if not known[1] then state.fresh = true end
  if state.holders + state.waiters == 0 then state.now, state.expires = NOW, '0' end -- it has no moments: see clock.lua
  return state
end
-- What nobody holds or waits for has the capacity that who comes now says, unless it was set for all; returns it.
local function fit(state, capacity)
  if state.holders + state.waiters == 0 and state.resized == '0' then state.capacity = 0 + capacity end
  return state.capacity
end
local function latest(state) return string.match(state.last, '^(%d+) (%d+) (.*)$') end -- serial, fence, metadata
local function encode(state)
  local numbers = string.format('%.0f %d %d %.0f %.0f %s %.0f %s %s ', state.used, state.holders, state.waiters,
    state.longest, state.shut, state.expires, state.capacity, state.resized, state.dirty)
  return numbers .. state.last
end
