-- wait: joins the waiters of a condition, or says that one of them still waits, and reads whether it was notified.
-- Follows wake.
-- KEYS    condition
-- ARGV    owner, how long it counts as alive from now (ms), '1' if it may join, '1' if it looks at the others, too,
--         channel of managers, host and pid
-- returns {'waiting' | 'notified' | 'gone' (the server does not know it, and it may not join), how many there are}
-- Only who looks at the others passes on what waiters that died were notified of. That takes as long as there are many,
-- so not each of them does it each time.
-- If a command is denied: PEXPIRE comes before and after HSET, so no key is left without an expiry.
local owner, liveness = ARGV[1], tonumber(ARGV[2])
local known = recall(owner)
local function told(entry)
  local waiters = math.max(0, redis.call('HLEN', KEYS[1]) - 1)
  return { entry and (entry.notified == '1' and 'notified' or 'waiting') or 'gone', waiters }
end
if ARGV[4] == '0' and known and known.till > now then
  known.till = math.max(known.till, now + liveness)
  keep(math.max(redis.call('PTTL', KEYS[1]), known.till - now + 60000))
  put(known)
  return told(known)
end
look()
local entry, last = line[owner], line[#line]
if not entry and ARGV[3] == '1' then
  local number = math.max(last and last.number + 1 or 0, time[1] * 1000000 + time[2])
  entry = { owner = owner, number = number, till = now, notified = '0', process = ARGV[6] }
  line[#line + 1], line[owner] = entry, entry
end
if entry then entry.till = math.max(entry.till, now + liveness) end
ends = math.max(ends, entry and entry.till or 0)
keep()
if entry then
  put(entry)
  keep()
end
wake(passed, ARGV[5])
return told(entry)
