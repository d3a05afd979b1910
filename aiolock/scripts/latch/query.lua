-- query: returns what is left of a latch, creates it if there is none, and refreshes its expiry.
-- KEYS    latch
-- ARGV    total (of a new latch), ttl ms
-- returns {left, total}
-- The stored total wins, and nothing shortens the expiry.
-- If a command is denied: reads and PEXPIRE come before HSET, so no key is left without an expiry.
local latch = redis.call('HMGET', KEYS[1], 'left', 'total')
local left, total = latch[1] or ARGV[1], latch[2] or ARGV[1]
local ttl = string.format('%.0f', math.max(ARGV[2], redis.call('PTTL', KEYS[1]))) -- some servers write 1e+8
redis.call('PEXPIRE', KEYS[1], ttl)
if not latch[1] then
  redis.call('HSET', KEYS[1], 'left', left, 'total', total)
  redis.call('PEXPIRE', KEYS[1], ttl)
end
return {tonumber(left), tonumber(total)}
