-- join: puts an owner at the end of a queue, unless it is in it. Follows alive.
-- KEYS    state, queue, alive; from KEYS[at]
-- `liveness` ms is how long its manager counts as alive from now; below 0: another request just said so. `metadata` is
-- what it says of itself. `number`: the one it had; otherwise it gets the next, or an earlier one if its id has a
-- priority: a minute for each step. `name.last` is the last number, '0' if the queue is empty, nil if unread.
-- The keys' expiry is extended when the queue is new, and when a quarter of it is over, as the known numbers tell.
-- returns its number; `name.news`: that its manager lives was news
-- If a command is denied: nothing was changed, or only that its manager lives; so what may be denied comes before ZADD,
-- and what has no expiry is taken back.
local function join(name, owner, liveness, counted, metadata, number)
  local queue, alive, ms = KEYS[name.at + 1], KEYS[name.at + 2], math.max(60000, 20 * math.abs(liveness))
  local last = name.last or redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2] or '0'
  local came = tonumber(number) or math.max(last + 1, time[1] * 1000000 + time[2])
  if (number or '') == '' then
    number = string.format('%.0f', came - 60000000 * (string.match(owner, ':%D?%d+p(%d+)') or 0))
  end
  local unknown = liveness > 0 and lives(name, owner, liveness, counted, metadata)
  local new, later = last == '0', math.floor(last / ms / 250) < math.floor(came / ms / 250)
  if (new or later or unknown) and not pcall(keep, alive, ms, new) then
    if unknown then redis.call('HDEL', alive, string.match(owner, '^[^:]*')) end
    keep(alive, ms, new)
  end
  if unknown then pcall(sweep, name) end
  local place = redis.call('ZADD', queue, 'NX', number, owner) == 1 and number or redis.call('ZSCORE', queue, owner)
  if new or later then keep(queue, ms, new) end
  name.news = unknown
  return place
end
-- Takes out one that is granted. If it joined only for that, its manager does not know that it did, and would not take
-- back that it lives: see depart. It `stays` known for others in the queue, or if it was there before.
local function leave(name, owner, stays)
  redis.call('ZREM', KEYS[name.at + 1], owner)
  if name.news and not stays then redis.pcall('HDEL', KEYS[name.at + 2], string.match(owner, '^[^:]*')) end
end
