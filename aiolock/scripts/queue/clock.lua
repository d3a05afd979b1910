-- clock: the ms by which the moments of a name count: the ends of its holders, its waiters' heartbeats, `shut`.
-- Follows state.lua.
-- The hash lasts until `expires`, if that is known: 0 says nothing. If it lasts longer, its slot has moved here from a
-- server whose clock is behind this one, as MIGRATE keeps how long a key lasts. That clock goes on to count until
-- nobody holds or waits. If it lasts less long, that clock is ahead, and counts if each holder would have longer than
-- anyone asked for. Otherwise someone has changed how long it lasts, and this server's clock counts: close.lua writes
-- it again.
-- If a command is denied: this server's clock counts. It reads only, so nothing was changed.
local SLACK = 50 -- ms: a script takes as long between two commands, and clocks that NTP keeps do not differ by more
local function lasting(state) return math.max(state.longest + GRACE, DAY) end
local function clock(state)
  if state.now then return state.now end
  state.now = NOW
  local left = tonumber(redis.pcall('PTTL', state.key)) or 0
  local own = left > 0 and state.expires > 0 and left <= lasting(state) + SLACK and state.expires - left or NOW + DAY
  if own < NOW - SLACK then
    state.now = own
  elseif own > NOW + SLACK then
    local found = own < NOW + DAY and redis.pcall('ZRANGE', state.order, 0, 0, 'WITHSCORES')
    local first = found and tonumber(found[2]) or 0
    if first - NOW > state.longest then state.now = own else state.expires = 0 end
  end
  return state.now
end
