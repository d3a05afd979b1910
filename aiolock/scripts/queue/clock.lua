-- clock: the ms by which the moments of a name count: the ends of its holders, its waiters' signs of life, `shut`.
-- Follows state.lua.
-- The hash expires when `expires` says. If it lasts longer, its slot was moved here (MIGRATE keeps how long a key lasts)
-- from a server whose clock is behind this one. That clock goes on to count until nobody holds or waits. If it lasts less
-- long, that clock is ahead, or someone shortened it: so it counts only if each holder would hold longer than any may.
-- If a command is denied: this server's clock counts. It reads only, so nothing was changed.
local SLACK = 50 -- ms that servers take between TIME and the other commands; NTP keeps their clocks closer than that
local function lasting(state) return math.max(state.longest + GRACE, DAY) end
local function clock(state)
  if state.now then return state.now end
  state.now = NOW
  local left = tonumber(redis.pcall('PTTL', state.key)) or 0
  local own = left > 0 and left <= lasting(state) + SLACK and state.expires - left or NOW
  if own > NOW + SLACK then
    local first = tonumber(redis.call('ZRANGE', state.order, 0, 0, 'WITHSCORES')[2] or 0)
    if first - NOW > state.longest and first < 0 + FIRST then state.now = own end
  elseif own < NOW - SLACK then
    state.now = own
  end
  return state.now
end
