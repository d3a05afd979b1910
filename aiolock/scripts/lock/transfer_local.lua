-- transfer_local: hands a name on within a process whose turn continues. Follows version and clock, and precedes all other
-- files that define functions. All other cases are left to transfer.
-- KEYS    as transfer
-- ARGV    as transfer
-- returns 'granted <fence> <pttl> <abandoned>' | 'finished', or continues
-- If a command is denied: nothing was changed.
if redis.call('EXISTS', KEYS[5]) == 1 then return 'finished' end
local owner, next, ttl = ARGV[1], ARGV[3], tonumber(ARGV[4])
local state = redis.pcall('HMGET', KEYS[1], 'version', 'owner', 'fence', 'abandoned', 'depth', 'expires')
local held = state[2] == owner and state[3] == ARGV[2] and state[1] == VERSION
if held and ARGV[7] == '2' then
  held = (tonumber(state[6]) or 0) > now or (tonumber(redis.pcall('PTTL', KEYS[1])) or 0) > 86400000
end
local head, number
if held then head, number = unpack(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')) end
local over = head and (ARGV[7] == '1' or (ARGV[7] == '0' and string.find(head, ':[f+]')))
local abandoned = state[5] == '0' and state[4] or '0'
if held and not over and not ARGV[11] and not (head and string.find(next, ':f', 1, true)) then
  local floor = tonumber(ARGV[5]) < 2 ^ 53 and ARGV[5] or 0 -- no fence is greater
  local least = math.max(ARGV[2], floor) + 1
  local is_now = time[1] * 1000000 + time[2] > least -- as nearly always, and then the text is cheap
  local fence = is_now and string.format('%s%06d', time[1], time[2]) or string.format('%.0f', least)
  if redis.pcall('PEXPIRE', KEYS[1], string.format('%.0f', ttl + 86400000)) == 1 then -- first, as in state
    redis.call('HSET', KEYS[1], 'owner', next, 'depth', '1', 'fence', fence, 'before', ARGV[2], 'abandoned', abandoned,
      'expires', string.format('%.0f', now + ttl), 'process', ARGV[6])
    return 'granted ' .. fence .. ' ' .. ARGV[4] .. ' ' .. abandoned
  end
end
