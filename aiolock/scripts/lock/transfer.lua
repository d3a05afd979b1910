-- transfer: hands a held lock to the next owner, under a new fence.
-- KEYS    lock, state, tombstone of the owner, tombstone of the next, mark of those who poll
-- ARGV    owner, fence, next, ttl ms, floor, metadata, state ttl ms, tombstone ttl ms (0: none), channel
-- returns {'granted', fence, pttl, 0, listeners on the channel, ms left of the mark} | {'finished'}
--         | {'missing', 'deleted' or 'taken_over'}
-- The owner must have ended cleanly. A copy of the request reads its own grant.
-- If a command is denied: DEL comes first, so a denied DEL changes nothing; after it the lock is free at worst.
local owner, fence, next = ARGV[1], ARGV[2], ARGV[3]
if redis.call('EXISTS', KEYS[4]) == 1 then return {'finished'} end
local seen = redis.pcall('PUBSUB', 'NUMSUB', ARGV[9])
local others, mark = seen.err and 1 or seen[2], redis.call('PTTL', KEYS[5])
local state = redis.call('HMGET', KEYS[2], 'fence', 'owner', 'abandoned')
if state[2] == next and redis.call('HEXISTS', KEYS[1], next) == 1 then
  return {'granted', state[1], redis.call('PTTL', KEYS[1]), state[3], others, mark}
end
local held = redis.call('HEXISTS', KEYS[1], owner) == 1
local answer
if held and (not state[1] or state[1] == fence) then
  local now = redis.call('TIME')
  local floor = tonumber(ARGV[5]) < 2 ^ 53 and ARGV[5] or 0 -- nobody was given more
  local least = math.max(fence, floor) + 1
  local minted = string.format('%.0f', math.max(least, now[1] * 1000000 + now[2]))
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[2], 'fence', minted, 'owner', next, 'clean', 0, 'abandoned', 0, 'metadata', ARGV[6])
  redis.call('PEXPIRE', KEYS[2], ARGV[7])
  redis.call('HSET', KEYS[1], next, 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  answer = {'granted', minted, tonumber(ARGV[4]), '0', others, mark}
else
  answer = {'missing', redis.call('EXISTS', KEYS[1]) == 1 and 'taken_over' or 'deleted'}
end
if ARGV[8] ~= '0' then redis.pcall('SET', KEYS[3], 1, 'PX', ARGV[8]) end
return answer
