-- info: says who holds a name and who waits for it; reads only.
-- KEYS    name (5)
-- ARGV    capacity, owner whose place is asked for ('': none)
-- returns {holders, weight held, capacity, fence, metadata of the last grant, waiters, place from 1 (0: none)
--         [, owner, depth, pttl, fence of the holder that holds longest]}
-- If a command is denied: nothing was changed.
local name = open(1, ARGV[1])
local used = name.used
for _, owner in ipairs(redis.call('ZRANGEBYSCORE', name.expiry, '-inf', NOW)) do
  local _, weight = read(name, owner)
  used = used - weight
end
local live = redis.call('ZRANGEBYSCORE', name.expiry, '(' .. text(NOW), '+inf', 'WITHSCORES')
local place = redis.call('ZRANK', name.queue, ARGV[2])
local answer = { #live / 2, used, name.capacity, name.fence, name.metadata }
answer[6], answer[7] = redis.call('ZCARD', name.queue), place and place + 1 or 0
local depth, _, _, fence = read(name, live[#live - 1] or '')
if depth ~= '0' then
  answer[8], answer[9], answer[10], answer[11] = live[#live - 1], tonumber(depth), live[#live] - NOW, fence
end
return answer
