-- line: the queue of a fair lock, as Redisson keeps it: a list, and a deadline for each place. Follows now.
-- KEYS    hash, list, deadlines; those behind the first `at`
-- returns nothing
-- Only the first is judged by its deadline. A thread in Java that goes takes the time that it may wait from those
-- behind; ours take nothing, as each of them sets its deadline anew with each heartbeat.
-- If a command is denied: nothing was changed, or a place has gone, whose owner learns that with its next request.
local at = 0
local function deadline_of(place) return tonumber(redis.call('ZSCORE', KEYS[at + 3], place) or nil) end
local function forget(place)
  redis.call('LREM', KEYS[at + 2], 0, place)
  redis.call('ZREM', KEYS[at + 3], place)
end
-- Forgets those at the front whose deadline is over; returns the others, and the rank of an owner.
local function line(owner)
  local places = redis.call('LRANGE', KEYS[at + 2], 0, -1)
  while places[1] and (deadline_of(places[1]) or math.huge) <= now do forget(table.remove(places, 1)) end
  for rank, place in ipairs(places) do
    if place == owner then return places, rank end
  end
  return places
end
-- Says that a place stays: whatever Java takes from its deadline, by default, and whoever holds until then.
local function stay(places, rank, wait, pttl)
  local deadline = now + math.max(0, pttl) + wait
  for i = 1, rank - 1 do
    if not string.find(places[i], '^%x+:') then deadline = deadline + 300000 end
  end
  redis.call('ZADD', KEYS[at + 3], string.format('%.0f', deadline), places[rank])
end
-- Returns for how long it is taken, and by whom: if it is free, by the first, which may be gone.
local function taken(places, pttl)
  if pttl ~= -2 then return string.format('%.0f %s', pttl, redis.call('HGETALL', KEYS[at + 1])[1]) end
  return string.format('%.0f %s', math.max(50, (deadline_of(places[1]) or now) - now), places[1])
end
