-- count_down: counts a latch down by one for an id that it has not counted yet; at 0 opens it and tells its waiters.
-- Follows lock/version.
-- KEYS    latch
-- ARGV    id, total (of a new latch), ttl ms, channel
-- returns {left, total}
-- The stored total wins, and nothing shortens the expiry. A copy of the request finds its own id, or an open latch,
-- and counts nothing; an open latch needs no ids.
-- If a command is denied: reads and PEXPIRE come before HSET, so nothing was counted and no key is left without an
-- expiry; what follows an opening HSET may fail, or has just succeeded.
local latch = redis.pcall('HMGET', KEYS[1], 'version', 'left', 'total', ARGV[1])
check(KEYS[1], latch, '0.2', 2, 3)
local left, total = tonumber(latch[2] or ARGV[2]), latch[3] or ARGV[2]
local ttl = string.format('%.0f', math.max(ARGV[3], redis.call('PTTL', KEYS[1]))) -- some servers write 1e+8
redis.call('PEXPIRE', KEYS[1], ttl)
if left > 0 and not latch[4] then
  left = left - 1
  -- One command for the id and its count: never one without the other.
  redis.call('HSET', KEYS[1], 'version', VERSION, 'left', string.format('%.0f', left), 'total', total, ARGV[1], 1)
  if left == 0 then
    redis.pcall('DEL', KEYS[1])
    redis.call('HSET', KEYS[1], 'version', VERSION, 'left', 0, 'total', total)
  end
  redis.call('PEXPIRE', KEYS[1], ttl)
  if left == 0 then redis.pcall('PUBLISH', ARGV[4], 'open') end
end
return {left, tonumber(total)}
