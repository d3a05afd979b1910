-- renew_one: extends one hold that its owner has. Follows version and clock, and precedes all other files that define
-- functions: a script that runs cold pays for those. All other cases are left to renew.
-- KEYS    state
-- ARGV    as renew
-- returns {pttl}, or continues
-- If a command is denied: nothing was changed.
local ttl = tonumber(ARGV[3])
local state = KEYS[1] and not KEYS[2] and ttl > 0 and redis.pcall('HMGET', KEYS[1], 'version', 'owner', 'fence', 'expires') or {}
if state[2] == ARGV[1] and state[3] == ARGV[2] and state[1] == VERSION and find(state[4] or '', '^%d+$') then
  local ends = math.max(state[4], now + ttl)
  local px = string.format('%.0f', ends - now + 86400000)
  if redis.pcall('PEXPIRE', KEYS[1], px) == 1 -- first, as in state
    and type(redis.pcall('HSET', KEYS[1], 'expires', string.format('%.0f', ends))) == 'number' then return { ends - now } end
end
