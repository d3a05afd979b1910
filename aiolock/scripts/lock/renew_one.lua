-- renew_one: extends one hold that its owner has. Follows clock, and precedes all files that define
-- functions: a script that runs cold pays for those. All other cases are left to renew.
-- KEYS    state
-- ARGV    as renew
-- returns {pttl}, or continues
-- If a command is denied: nothing was changed.
local ttl, state = tonumber(ARGV[3]), KEYS[1] and not KEYS[2] and redis.pcall('GET', KEYS[1])
local own = (ARGV[1] or '') .. ' ' .. (ARGV[2] or '') .. ' '
if type(state) == 'string' and string.sub(state, 1, #own) == own and ttl > 0 then
  local before, depth, dirty, expires, metadata = string.match(state, '^%S+ %d+ (%d+) (%d+) (%d) (%d+) (.*)$')
  if expires then
    expires = math.max(expires, now + ttl)
    local left, text = expires - now, own .. before .. ' ' .. depth .. ' ' .. dirty .. string.format(' %.0f ', expires)
    local px = string.format('%.0f', left + 86400000)
    if not redis.pcall('SET', KEYS[1], text .. metadata, 'PX', px).err then return { left } end
  end
end
