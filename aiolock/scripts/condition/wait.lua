-- wait: joins the waiters of a condition, or says that one of them still waits, and reads whether it was notified.
-- KEYS    condition
-- ARGV    owner, how long it counts as alive from now (ms), '1' if it may join, channel of managers
-- returns 'waiting' | 'notified' | 'gone' (the server does not know it, and it may not join)
-- If a command is denied: PEXPIRE comes before and after HSET, so no key is left without an expiry.
local owner, liveness, answer = ARGV[1], tonumber(ARGV[2]), 'gone'
local entry, last = line[owner], line[#line]
if not entry and ARGV[3] == '1' then
  local number = math.max(last and last.number + 1 or 0, time[1] * 1000000 + time[2])
  entry = { owner = owner, number = number, alive = now, notified = 0 }
  line[#line + 1], line[owner] = entry, entry
end
if entry then
  entry.alive = math.max(entry.alive, now + liveness)
  ends = math.max(ends, entry.alive)
end
keep()
if entry then
  put(entry)
  keep()
end
notify(passed, ARGV[4])
if entry then answer = entry.notified == 1 and 'notified' or 'waiting' end
return answer
