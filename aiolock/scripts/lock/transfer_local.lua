-- transfer_local: hands a name on within a process whose turn continues. Follows clock, and precedes all files that
-- define functions. All other cases are left to transfer.
-- KEYS    as transfer
-- ARGV    as transfer
-- returns 'granted <fence> <pttl> <abandoned>' | 'finished', or continues
-- If a command is denied: nothing was changed.
if redis.call('EXISTS', KEYS[5]) == 1 then return 'finished' end
local owner, next, ttl = ARGV[1], ARGV[3], tonumber(ARGV[4])
local own, state = owner .. ' ' .. ARGV[2] .. ' ', redis.call('GET', KEYS[1])
local held = state and string.sub(state, 1, #own) == own
if held and ARGV[7] == '2' then
  held = tonumber(string.match(state, '^%S+ %d+ %d+ %d+ %d (%d+) ')) > now
    or (tonumber(redis.pcall('PTTL', KEYS[1])) or 0) > 86400000
end
local head, number
if held then head, number = unpack(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')) end
local over = head and (ARGV[7] == '1' or (ARGV[7] == '0' and string.find(head, ':[f+]')))
if held and not over and not ARGV[11] and not (head and string.find(next, ':f', 1, true)) then
  local depth, dirty = string.match(state, '^%S+ %d+ %d+ (%d+) (%d) ')
  local abandoned = depth == '0' and dirty or '0'
  local floor = tonumber(ARGV[5]) < 2 ^ 53 and ARGV[5] or 0 -- no fence is greater
  local least = math.max(ARGV[2], floor) + 1
  local is_now = time[1] * 1000000 + time[2] > least -- as nearly always, and then the text is cheap
  local fence = is_now and string.format('%s%06d', time[1], time[2]) or string.format('%.0f', least)
  local text = string.format('%s %s %s 1 %s %.0f ', next, fence, ARGV[2], abandoned, now + ttl) .. ARGV[6]
  local px = string.format('%.0f', ttl + 86400000)
  if not redis.pcall('SET', KEYS[1], text, 'PX', px).err then
    return 'granted ' .. fence .. ' ' .. ARGV[4] .. ' ' .. abandoned
  end
end
