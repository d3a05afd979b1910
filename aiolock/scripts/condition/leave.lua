-- leave: ends a waiter of a condition. Follows wake.
-- KEYS    condition
-- ARGV    owner, '1' if it makes no use of its notification: the next is notified, channel of managers
-- returns 1, or 0 if the server does not know it
-- If a command is denied: nothing was changed, or it is gone and no other was notified.
local entry = recall(ARGV[1])
if not entry then return 0 end
drop(ARGV[1])
if ARGV[2] == '1' and entry.notified == '1' then
  look()
  wake(passed + 1, ARGV[3])
end
return 1
