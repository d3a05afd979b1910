-- commands: runs write commands, one after another. A body of write: what they write is in KEYS, too.
-- ARGV    how many words, the words: command, key and further arguments; repeated
-- returns their replies; a sum that Lua would round, as text
-- If a command is denied: those before it stay.
local replies, at = {}, 1
while at <= #ARGV do
  local key, last = ARGV[at + 2], at + ARGV[at]
  local reply = redis.call(unpack(ARGV, at + 1, last))
  if type(reply) == 'number' and math.abs(reply) >= 2 ^ 53 then reply = redis.call('GET', key) end
  replies[#replies + 1], at = reply, last + 1
end
return replies
