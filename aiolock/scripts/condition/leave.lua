-- leave: ends a waiter of a condition.
-- KEYS    condition
-- ARGV    owner, '1' if it makes no use of its notification: the next is notified, channel of managers
-- returns 1, or 0 if the server does not know it
-- If a command is denied: nothing was changed, or it is gone and no other was notified.
local entry = line[ARGV[1]]
if entry then
  redis.call('HDEL', KEYS[1], entry.owner)
  if ARGV[2] == '1' then passed = passed + entry.notified end
  entry.notified = 1 -- so it is not notified
end
notify(passed, ARGV[3])
return entry and 1 or 0
