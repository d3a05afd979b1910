-- acquire_own: makes what the queue has granted to the owner a hold. Follows clock, and precedes all files that define
-- functions: a script that runs cold pays for those. All other cases are left to acquire.
-- KEYS    state, queue, alive, tombstone of the owner
-- ARGV    as acquire
-- returns 'granted <fence> <pttl> <abandoned>', or continues
-- If a command is denied: nothing was changed.
local owner, ttl, state = ARGV[1], tonumber(ARGV[2]), redis.call('GET', KEYS[1])
if state and string.sub(state, 1, #owner + 1) == owner .. ' ' and not ARGV[6] then
  local fence, before, depth, dirty, expires = string.match(state, '^%S+ (%d+) (%d+) (%d+) (%d) (%d+) ')
  if depth == '0' and tonumber(expires) > now and tonumber(fence) >= tonumber(ARGV[3])
    and redis.call('EXISTS', KEYS[4]) == 0 then
    local text = string.format('%s %s %s 1 %s %.0f ', owner, fence, before, dirty, now + ttl) .. ARGV[4]
    if not redis.pcall('SET', KEYS[1], text, 'PX', string.format('%.0f', ttl + 86400000)).err then
      return 'granted ' .. fence .. ' ' .. ARGV[2] .. ' ' .. dirty
    end
  end
end
