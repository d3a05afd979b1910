-- info: says who has an RLock, and who waits for a fair one.
-- KEYS    hash, counter of an RFencedLock, list of a fair lock
-- ARGV    an owner that waits, or ''
-- returns {pttl, token ('0': none), how many wait, its rank (0: none), owner, depth}; no owner if it is free
-- If a command is denied: nothing is changed anyway.
local places, rank = redis.call('LRANGE', KEYS[3], 0, -1), 0
for i, place in ipairs(places) do
  if place == ARGV[1] then rank = i end
end
local token = redis.call('GET', KEYS[2]) or '0'
return { redis.call('PTTL', KEYS[1]), token, #places, rank, unpack(redis.call('HGETALL', KEYS[1])) }
