-- write: runs `body`, a function in front of the script, if the owner holds; at most once. Follows names or holders.
-- KEYS    last write; the keys that say who holds; then those of the body
-- ARGV    owner, fence, number, how many keys say who holds, weight; then those of the body
-- returns {0, what the body returned} | {1}: it does not hold | {2}: a later write was done before
-- Writes of one fence have growing numbers. A copy of the last one, which comes if a reply was lost, gets the answer
-- that was lost. A copy of an earlier one does nothing.
-- If a command is denied: of those here, nothing was changed; of the body's, what precedes it stays.
local HOUR = '3600000' -- longer than TCP repeats a request
local fence, number, done, reply = ARGV[2], ARGV[3], nil, nil
local last_fence, last_number, kept = string.match(redis.call('GET', KEYS[1]) or '0 0 ', '^(%d+) (%d+) (.*)$')
if not kept then return { err = 'WRONGTYPE the key holds text that is no write under a lock' } end
if last_fence == fence and last_number == number then
  reply = kept ~= '' and cmsgpack.unpack(kept) or nil
elseif not held() then
  return { 1 }
elseif last_fence == fence and tonumber(last_number) > tonumber(number) then
  return { 2 }
else
  local keys, args, own = {}, {}, 1 + ARGV[4]
  for i = own + 1, #KEYS do keys[i - own] = KEYS[i] end
  for i = 6, #ARGV do args[i - 5] = ARGV[i] end
  redis.call('SET', KEYS[1], fence .. ' ' .. number .. ' ', 'PX', HOUR)
  done, reply = pcall(body, keys, args)
  -- A caught error is a table on some servers, and text on others.
  if not done then reply = { err = type(reply) == 'table' and reply.err or 'ERR ' .. reply } end
  if reply ~= nil then redis.pcall('SET', KEYS[1], fence .. ' ' .. number .. ' ' .. cmsgpack.pack(reply), 'PX', HOUR) end
end
return type(reply) == 'table' and reply.err and reply or { 0, reply }
