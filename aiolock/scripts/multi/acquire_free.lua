-- acquire_free: grants all names at once if none is held and no one waits. Follows clock, and precedes all files
-- that define functions: a script that runs cold pays for those. All other cases are left to acquire.
-- KEYS    tombstone of the owner; then state, queue, alive; repeated
-- ARGV    owner, ttl ms, floor, metadata
-- returns 'granted <fence> <pttl> <abandoned>', or continues
-- If a command is denied: nothing was changed; if only some of the keys are denied, a release ends the others.
local owner, ttl, least = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local busy, states, parts = { KEYS[1] }, {}, {}
for at = 2, #KEYS, 3 do
  states[#states + 1], busy[#busy + 1] = redis.call('GET', KEYS[at]), KEYS[at + 1]
end
busy = redis.call('EXISTS', unpack(busy)) > 0
least = least < 2 ^ 53 and least or 0 -- no fence is greater
for i, state in ipairs(states) do
  local holder, last, depth, dirty, expires = '-', '0', '0', '0', '0'
  if state then holder, last, depth, dirty, expires = string.match(state, '^(%S+) (%d+) %d+ (%d+) (%d) (%d+) ') end
  busy = busy or tonumber(expires) > now
    or holder ~= '-' and (tonumber(redis.pcall('PTTL', KEYS[3 * i - 1])) or 0) > 86400000 -- see lock/state
  parts[i], least = { last, holder ~= '-' and depth ~= '0' and '1' or dirty }, math.max(least, last)
end
if not busy then
  local is_now = time[1] * 1000000 + time[2] > least + 1 -- as nearly always, and then the text is cheap
  local fence = is_now and string.format('%s%06d', time[1], time[2]) or string.format('%.0f', least + 1)
  local px, abandoned = string.format('%.0f', ttl + 86400000), '0'
  for i, part in ipairs(parts) do
    local text = string.format('%s %s %s 1 %s %.0f ', owner, fence, part[1], part[2], now + ttl)
    redis.call('SET', KEYS[3 * i - 1], text .. ARGV[4], 'PX', px)
    if part[2] == '1' then abandoned = '1' end
  end
  return 'granted ' .. fence .. ' ' .. ARGV[2] .. ' ' .. abandoned
end
local liveness, channel, number = tonumber(ARGV[5]), ARGV[7], ARGV[8] ~= '0' and ARGV[8] or nil
