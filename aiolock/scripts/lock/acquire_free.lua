-- acquire_free: grants a free name without a queue. Follows acquire_own, and precedes all files that define functions.
-- All other cases are left to acquire.
-- KEYS    state, queue, alive, tombstone of the owner
-- ARGV    as acquire
-- returns 'granted <fence> <pttl> <abandoned>', or continues
-- If a command is denied: nothing was changed.
local busy = redis.call('EXISTS', KEYS[4], KEYS[2])
if busy == 0 and not ARGV[6] then
  local holder, last, depth, dirty, expires = '-', '0', '0', '0', 0
  if state then holder, last, depth, dirty, expires = string.match(state, '^(%S+) (%d+) %d+ (%d+) (%d) (%d+) ') end
  local over = tonumber(expires or now + 1) <= now
  if over and (holder == '-' or (tonumber(redis.pcall('PTTL', KEYS[1])) or 0) <= 86400000) then -- see state
    local abandoned = holder ~= '-' and depth ~= '0' and '1' or dirty
    local floor = tonumber(ARGV[3]) < 2 ^ 53 and ARGV[3] or 0 -- no fence is greater
    local least = math.max(last, floor) + 1
    local is_now = time[1] * 1000000 + time[2] > least -- as nearly always, and then the text is cheap
    local fence = is_now and string.format('%s%06d', time[1], time[2]) or string.format('%.0f', least)
    local text = string.format('%s %s %s 1 %s %.0f ', owner, fence, last, abandoned, now + ttl) .. ARGV[4]
    redis.call('SET', KEYS[1], text, 'PX', string.format('%.0f', ttl + 86400000))
    return 'granted ' .. fence .. ' ' .. ARGV[2] .. ' ' .. abandoned
  end
end
