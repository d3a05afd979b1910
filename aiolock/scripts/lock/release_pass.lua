-- release_pass: passes a name on to the first in its queue if that lives and hears, as is usual. Follows release_free and
-- clock, and precedes all other files that define functions. All other cases are left to release.
-- KEYS    state, queue, alive
-- ARGV    owner, clean state ttl ms, channel of managers
-- returns 'released <fence>', or continues: nothing was changed that release does not do again
-- If a command is denied: see settle.
if head and head ~= owner then
  local manager, last = string.match(head, '^[^:]*'), state[3]
  local known, process = string.match(redis.call('HGET', KEYS[3], manager) or '', '^(%d+)%+ ?(.*)$')
  local most = known and string.match(head, '~(%d+)$')
  if most then known = string.format('%.0f', math.min(known, now + most)) end
  local left = (known or 0) - now
  if left > 0 then
    local is_now = time[1] * 1000000 + time[2] > last + 1 -- as nearly always, and then the text is cheap
    local fence = is_now and string.format('%s%06d', time[1], time[2]) or string.format('%.0f', last + 1)
    local channel, px = ARGV[3] .. manager, string.format('%.0f', left + 86400000)
    if redis.pcall('PUBSUB', 'NUMSUB', channel)[2] ~= 0 and redis.pcall('PEXPIRE', KEYS[1], px) == 1 then -- as in state
      redis.call('HSET', KEYS[1], 'owner', head, 'depth', '0', 'fence', fence, 'before', number, 'abandoned', '0',
        'expires', known, 'process', process)
      if redis.pcall('PUBLISH', channel, 'granted ' .. head .. ' ' .. fence .. ' 0 ' .. KEYS[1]) ~= 0 then
        redis.call('ZREM', KEYS[2], head)
        return 'released ' .. last
      end
    end
  end
end
