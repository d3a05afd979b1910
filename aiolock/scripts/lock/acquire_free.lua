-- acquire_free: grants a free name without a queue. Follows acquire_own, and precedes all files that define functions.
-- All other cases are left to acquire.
-- KEYS    state, queue, alive, tombstone of the owner
-- ARGV    as acquire
-- returns 'granted <fence> <pttl> <abandoned>', or continues
-- HSET is first: at the memory limit no one is let in.
-- If a command is denied: nothing was changed, but for a fence that no one has.
local known = state[1] == VERSION
local busy = known and redis.call('EXISTS', KEYS[4], KEYS[2]) or redis.call('EXISTS', KEYS[4], KEYS[2], key)
local last, expires = state[3] or '0', state[6] or '0'
if busy == 0 and not state.err and #last < 17 and find(last, '^%d+$')
  and (not state[2] or find(expires, '^%d+$') and tonumber(expires) <= now) then
  local abandoned, over = state[4] or '0', true
  if state[2] then -- it has expired: see state
    over = (tonumber(redis.pcall('PTTL', key)) or 0) <= 86400000
    if state[5] ~= '0' then abandoned = '1' end
  end
  if over then
    local floor = tonumber(ARGV[3]) < 2 ^ 53 and ARGV[3] or 0 -- no fence is greater
    local least = math.max(last, floor) + 1
    local is_now = time[1] * 1000000 + time[2] > least -- as nearly always, and then the text is cheap
    local fence = is_now and string.format('%s%06d', time[1], time[2]) or string.format('%.0f', least)
    if not known then redis.call('HSET', key, 'version', VERSION) end
    redis.call('HSET', key, 'owner', owner, 'depth', '1', 'fence', fence, 'before', last,
      'abandoned', abandoned, 'expires', ends, 'process', ARGV[4])
    if redis.pcall('PEXPIRE', key, px) == 1 then return 'granted ' .. fence .. ' ' .. ARGV[2] .. ' ' .. abandoned end
    local new = known and {} or { 'version', 'fence', 'abandoned' } -- would have no expiry
    redis.call('HDEL', key, 'owner', 'depth', 'before', 'expires', 'process', unpack(new))
  end
end
