-- acquire_free: grants all names at once if none is held and no one waits. Follows version and clock, and precedes
-- all other files that define functions: a script that runs cold pays for those. All other cases are left to acquire.
-- KEYS    tombstone of the owner; then state, queue, alive; repeated
-- ARGV    owner, ttl ms, floor, metadata
-- returns 'granted <fence> <pttl> <abandoned>', or continues
-- If a command is denied: nothing was changed; if only some of the keys are denied, a release ends the others.
local owner, ttl, least = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local busy, states, dirty = { KEYS[1] }, {}, {}
for at = 2, #KEYS, 3 do
  local state = redis.pcall('HMGET', KEYS[at], 'version', 'owner', 'fence', 'abandoned', 'depth', 'expires')
  if state[1] ~= VERSION then busy[#busy + 1] = KEYS[at] end
  states[#states + 1], busy[#busy + 1] = state, KEYS[at + 1]
end
busy = redis.call('EXISTS', unpack(busy)) > 0
least = least < 2 ^ 53 and least or 0 -- no fence is greater
for i, state in ipairs(states) do
  local last, expires = state[3] or '0', state[6] or '0'
  busy = busy or state.err or #last > 16 or not find(last, '^%d+$') or state[2]
    and (not find(expires, '^%d+$') or tonumber(expires) > now
    or (tonumber(redis.pcall('PTTL', KEYS[3 * i - 1])) or 0) > 86400000) -- see lock/state
  dirty[i], least = state[2] and state[5] ~= '0' and '1' or state[4] or '0', math.max(least, tonumber(last) or 0)
end
if not busy then
  local is_now = time[1] * 1000000 + time[2] > least + 1 -- as nearly always, and then the text is cheap
  local fence = is_now and string.format('%s%06d', time[1], time[2]) or string.format('%.0f', least + 1)
  local px, ends, abandoned = string.format('%.0f', ttl + 86400000), string.format('%.0f', now + ttl), '0'
  for i, state in ipairs(states) do
    local key = KEYS[3 * i - 1]
    redis.call('HSET', key, 'version', VERSION, 'owner', owner, 'depth', '1', 'fence', fence, 'before', state[3] or '0',
      'abandoned', dirty[i], 'expires', ends, 'process', ARGV[4])
    if redis.pcall('PEXPIRE', key, px) ~= 1 then
      redis.call('HDEL', key, 'version', 'owner', 'depth', 'fence', 'before', 'abandoned', 'expires', 'process')
    end
    if dirty[i] == '1' then abandoned = '1' end
  end
  return 'granted ' .. fence .. ' ' .. ARGV[2] .. ' ' .. abandoned
end
local liveness, channel, number = tonumber(ARGV[5]), ARGV[7], ARGV[8] ~= '0' and ARGV[8] or nil
