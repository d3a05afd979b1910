-- look: answers commands that read one name, all at one moment.
-- KEYS    those of the name, its state first
-- ARGV    the version whose states had no field for that, or ''; then for each command how many words it has, and they
-- returns {the server's time, a reply to each}
-- If a command is denied: nothing was changed.
check(KEYS[1], redis.pcall('HMGET', KEYS[1], 'version'), ARGV[1] ~= '' and ARGV[1])
local replies, at = { redis.call('TIME') }, 2
while ARGV[at] do
  local next = at + ARGV[at] + 1
  replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, next - 1))
  at = next
end
return replies
