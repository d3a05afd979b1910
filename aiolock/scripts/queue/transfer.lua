-- transfer: moves a hold to another owner, under a new fence where its kind mints them.
-- KEYS    name (2), tombstone of the owner, tombstone of the next
-- ARGV    channel before, after, owner, fence, next, ttl ms, floor, metadata, tombstone ttl ms (0: none), capacity
-- returns {'granted', fence, pttl, abandoned, capacity, weight} | {'finished'}
--         | {'missing', 'deleted' or 'taken_over'}
-- A copy of the request reads its own grant. A next that holds already keeps what it has; the owner ends all the same.
-- If a command is denied: see close.lua; the owner holds, or the next.
local owner, next = ARGV[3], ARGV[5]
if redis.call('EXISTS', KEYS[4]) == 1 then return { 'finished' } end
local name = open(1, ARGV[10], { owner, next })
prune(name)
local again, has, _, token, found = holder(name, next)
local held, weight, mints, fence = holder(name, owner)
local moves = held and fence == ARGV[4] and owner ~= next
local answer = { 'missing', gone(name, 1) }
if moves then drop(name, owner, weight, false) end
if again then
  answer = { 'granted', token, extend(name, next, 0), found, name.capacity, tonumber(has) }
elseif moves then
  if waiter(name, next) then leave(name, next) end
  answer = grant(name, next, tonumber(ARGV[6]), weight, mints, ARGV[7], ARGV[8])
  answer[6] = tonumber(weight)
end
settle(name)
close(name)
if ARGV[9] ~= '0' then redis.pcall('SET', KEYS[3], 1, 'PX', ARGV[9]) end
return answer
