-- refresh: records that many waiters live, and grants a free name to the first in its queue; judges each alone.
-- KEYS    state, queue, alive; repeated
-- ARGV    channel of managers; then owner, liveness ms, 1 if its manager subscribes, its process; repeated
-- returns an answer per name: 'granted <fence> <pttl> <abandoned>' | 'queued <number> <rank> <pttl> <fence> <metadata>' | 'gone'
--         | 'error …'
-- It never queues anyone. What it grants lasts like every grant from a queue: see settle. PEXPIRE comes before HSET: at
-- the memory limit the first write decides.
-- If a command is denied: that name's answer is the error; see settle.
local function refresh(at, owner, liveness, counted, process)
  local name = read(at)
  if not (name.live and name.owner == owner) then
    local queue, first, ms = KEYS[at + 1], nil, math.max(60000, 20 * liveness)
    local number = redis.call('ZSCORE', queue, owner)
    if not number then return 'gone' end
    keep(queue, ms)
    lives(name, owner, liveness, counted, process)
    keep(KEYS[at + 2], ms)
    sweep(name)
    if not name.live then
      vacate(name)
      first = settle(name, ARGV[1], owner, '0')
    end
    if first ~= owner then
      local rank, pttl = redis.call('ZRANK', queue, owner) + 1, math.max(0, name.expires - now)
      return string.format('queued %s %d %.0f %s ', number, rank, pttl, name.fence) .. name.process
    end
    grant(name, owner, '0', now + math.min(liveness, string.match(owner, '~(%d+)$') or liveness), process, '0', number)
    redis.call('ZREM', queue, owner)
  end
  return string.format('granted %s %.0f %s', name.fence, name.expires - now, name.abandoned)
end
local answers = {}
for i = 1, #KEYS / 3 do
  local done, answer = pcall(refresh, 3 * i - 2, ARGV[4 * i - 2], tonumber(ARGV[4 * i - 1]), ARGV[4 * i], ARGV[4 * i + 1])
  -- A caught error is a table on some servers, and text on others.
  answers[i] = done and answer or 'error ' .. (type(answer) == 'table' and answer.err or answer)
end
return answers
