-- transfer_pass: passes a name on to the first in its queue, if that lives and hears, as is usual at the end of a turn.
-- Follows transfer_local, and precedes all files that define functions. All other cases are left to transfer.
-- KEYS    as transfer
-- ARGV    as transfer
-- returns 'passed <number> <pttl>', or continues: it changed nothing that transfer does not do again
-- If a command is denied: see settle and join. A granted owner that could not leave the queue does when it ends.
if over and head ~= next and head ~= owner and not ARGV[11] and not string.find(next, ':%D?%d+p') then
  local queue, alive, manager = KEYS[2], KEYS[3], string.match(head, '^[^:]*')
  local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
  local known, process = string.match(redis.call('HGET', alive, manager) or '', '^(%d+)%+ ?(.*)$')
  local most = known and string.match(head, '~(%d+)$')
  if most then known = string.format('%.0f', math.min(known, now + most)) end
  local left, ms, us = (known or 0) - now, math.max(60000, 20 * ARGV[9]), time[1] * 1000000 + time[2]
  local fence = math.max(ARGV[2], tonumber(ARGV[5]) < 2 ^ 53 and ARGV[5] or 0) + 1 -- no fence is greater
  local place = math.max(last + 1, us)
  if left > 0 and math.floor(last / ms / 250) == math.floor(place / ms / 250) then
    local clock = string.format('%s%06d', time[1], time[2]) -- cheap text, as nearly always
    fence = us > fence and clock or string.format('%.0f', fence)
    local told = 'granted ' .. head .. ' ' .. fence .. ' ' .. abandoned .. ' ' .. KEYS[1]
    local hears = redis.pcall('PUBSUB', 'NUMSUB', ARGV[8] .. manager)[2] ~= 0
    hears = hears and redis.pcall('PEXPIRE', KEYS[1], string.format('%.0f', left + 86400000)) == 1 -- as in state
    if hears then
      redis.call('HSET', KEYS[1], 'owner', head, 'depth', '0', 'fence', fence, 'before', number, 'abandoned', abandoned,
        'expires', known, 'process', process)
    end
    if hears and redis.pcall('PUBLISH', ARGV[8] .. manager, told) ~= 0 then
      local alone, lives = last == number, string.format('%.0f', now + ARGV[9]) .. (ARGV[10] == '1' and '+' or '')
      lives = lives .. ' ' .. string.match(ARGV[6], '^[^\n]*')
      if redis.call('HSET', alive, string.match(next, '^[^:]*'), lives) == 1 or alone then
        redis.call('PEXPIRE', alive, string.format('%.0f', alone and ms or math.max(ms, redis.call('PTTL', alive))))
      end
      place = place == us and clock or string.format('%.0f', place)
      if redis.call('ZADD', queue, 'NX', place, next) == 0 then place = redis.call('ZSCORE', queue, next) end
      redis.call('ZREM', queue, head)
      if alone then redis.call('PEXPIRE', queue, string.format('%.0f', ms)) end
      return string.format('passed %s %.0f', place, left)
    end
  end
end
