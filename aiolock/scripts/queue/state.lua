-- state: the state of a name of the family, as scripts read and change it. Follows lock/version.
-- KEYS    two per name: hash (FIELDS -> value, owner -> record, see record.lua), order (ZSET owner -> score)
-- A holder's score is the ms when its time is over; a waiter's is its number, FIRST or more.
-- If a command is denied: it reads only, so nothing was changed.
local DAY, GRACE, FIRST, time, states = '86400000', 60 * 1000, '1000000000000000', redis.call('TIME'), {}
local NOW_US, NOW = time[1] * 1000000 + time[2], time[1] * 1000 + math.floor(time[2] / 1000)
local room = 250 -- how many may still come and go in this script: a longer one would block the server
local FIELDS, ALWAYS = { 'version', 'process', 'used', 'holders', 'waiters', 'longest', 'expires', 'capacity', 'serial', 'fence',
  'abandoned', 'resized', 'shut', 'state' }, 10 -- the first ten are in each hash, the others once they were needed
local function text(number) return string.format('%.0f', number) end
local function read_state(k, capacity, owners)
  local records, kept = {}, redis.pcall('HMGET', KEYS[k], 'version', 'process', 'used', 'holders', 'waiters', 'longest',
    'expires', 'capacity', 'serial', 'fence', 'abandoned', 'resized', 'shut', 'state', unpack(owners))
  check(KEYS[k], kept, '0.2', 3, 13)
  for i, owner in ipairs(owners) do records[owner] = kept[#FIELDS + i] or '' end
  local state = {
    key = KEYS[k], order = KEYS[k + 1], records = records, kept = kept, fresh = not kept[1], process = kept[2] or '',
    used = 0 + (kept[3] or 0), holders = 0 + (kept[4] or 0), waiters = 0 + (kept[5] or 0), longest = 0 + (kept[6] or 0),
    expires = 0 + (kept[7] or 0), capacity = 0 + (kept[8] or capacity), serial = kept[9] or '0', fence = kept[10] or '0',
    abandoned = kept[11] or '0', resized = kept[12] or '0', shut = 0 + (kept[13] or 0),
  }
  -- What 0.2 looks at, and ends with an error: it takes a hash without it for its own. 0.3.0 deletes it, so do not go on.
  state.state = state.fresh and VERSION or kept[14] or '0'
  if state.holders + state.waiters == 0 then state.now, state.expires, kept[7] = NOW, 0, '0' end -- it has no moments
  return state
end
-- What nobody holds or waits for has the capacity that who comes now says, unless it was set for all; returns it.
local function fit(state, capacity)
  if state.holders + state.waiters == 0 and state.resized == '0' then state.capacity = 0 + capacity end
  return state.capacity
end
