-- commands: runs write commands, one after another. A body of write: what they write is in KEYS, too.
-- ARGV    how many words, the words: command and arguments; repeated
-- returns their replies
-- If a command is denied: those before it stay.
local replies, at = {}, 1
while at <= #ARGV do
  local last = at + ARGV[at]
  replies[#replies + 1], at = redis.call(unpack(ARGV, at + 1, last)), last + 1
end
return replies
