-- transfer: ends an owner and hands its name on, in its process or, if its turn is over, to the next in the queue.
-- KEYS    state, queue, alive, tombstone of the owner, tombstone of the next
-- ARGV    owner, fence, next, ttl ms, floor, metadata, over (1; 0: only if the first in the queue has the fair rule;
--         2: no, and the owner's time must not be over), channel of managers, liveness ms, 1 if its manager subscribes;
--         if tainted: tombstone ttl ms
-- returns 'granted <fence> <pttl> <abandoned>' | 'passed <number> <pttl>': another has it, and the next is in the queue
--         | 'missing <deleted or taken_over>' | 'finished'
-- The owner must have ended cleanly. The next is new, or a task with the fair rule that already waits. A copy of the
-- request reads what became of the next; if the queue has granted it the name, that becomes a hold: see own.
-- If a command is denied: see settle and join; the owner holds it, or the next, or the one from the queue.
local name, answer = read(1), nil
if held then
  vacate(name, name.depth == '0' and name.abandoned or '0') -- a grant that nobody asked for began nothing
  local first = over and settle(name, ARGV[8], next, ARGV[5]) or ''
  if first == '' or first == next then
    grant(name, next, '1', now + ttl, ARGV[6], ARGV[5])
    if first == next or (head and string.find(next, ':f', 1, true)) then redis.call('ZREM', KEYS[2], next) end
  else
    answer = join(name, next, tonumber(ARGV[9]), ARGV[10], ARGV[6])
  end
elseif name.live and name.owner == next then
  own(name, tonumber(ARGV[4]), ARGV[6], ARGV[5])
else
  answer = redis.call('ZSCORE', KEYS[2], next) or (name.live and 'missing taken_over' or 'missing deleted')
end
if ARGV[11] then redis.pcall('SET', KEYS[4], 1, 'PX', ARGV[11]) end
local pttl = math.max(0, name.expires - now)
if not answer then return string.format('granted %s %.0f %s', name.fence, pttl, name.abandoned) end
return tonumber(answer) and string.format('passed %s %.0f', answer, pttl) or answer
