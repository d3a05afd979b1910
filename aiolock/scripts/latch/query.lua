-- query: returns what is left of a latch, creates it if there is none, and refreshes its expiry. Follows lock/version.
-- KEYS    latch
-- ARGV    total (of a new latch), ttl ms
-- returns {left, total}
-- The stored total wins, and nothing shortens the expiry.
-- If a command is denied: reads and PEXPIRE come before HSET, so no key is left without an expiry.
local latch = redis.pcall('HMGET', KEYS[1], 'version', 'left', 'total')
check(KEYS[1], latch, '0.2', 2, 3)
local left, total = latch[2] or ARGV[1], latch[3] or ARGV[1]
local ttl = string.format('%.0f', math.max(ARGV[2], redis.call('PTTL', KEYS[1]))) -- some servers write 1e+8
redis.call('PEXPIRE', KEYS[1], ttl)
if not latch[2] then
  redis.call('HSET', KEYS[1], 'version', VERSION, 'left', left, 'total', total)
  redis.call('PEXPIRE', KEYS[1], ttl)
end
return {tonumber(left), tonumber(total)}
