-- alive: records that a manager is alive, and which process it is of. Follows clock.
-- KEYS    state, queue, alive; from KEYS[at]
-- returns whether this was news
-- If a command is denied: nothing was changed, or fields of managers that are gone stay.
local function lives(name, owner, liveness, counted, metadata)
  local known = string.format('%.0f%s ', now + liveness, counted == '1' and '+' or '')
  known = known .. string.match(metadata, '^[^\n]*') -- its first line
  return redis.call('HSET', KEYS[name.at + 2], string.match(owner, '^[^:]*'), known) == 1
end
-- Never shortens, unless the key is `new`: a manager with a longer liveness refreshes less often.
local function keep(key, ms, new)
  redis.call('PEXPIRE', key, string.format('%.0f', new and ms or math.max(ms, redis.call('PTTL', key))))
end
-- If many managers are gone, forgets some of them: all at once would block the server.
local function sweep(name)
  local alive = KEYS[name.at + 2]
  if redis.call('HLEN', alive) <= redis.call('ZCARD', KEYS[name.at + 1]) + 64 then return end
  local some = redis.call('HSCAN', alive, time[2], 'COUNT', 50)[2] -- from anywhere: other requests sweep elsewhere
  for i = 1, #some, 2 do
    if tonumber(string.match(some[i + 1], '^%d+')) <= now then redis.call('HDEL', alive, some[i]) end
  end
end
