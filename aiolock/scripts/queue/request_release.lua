-- request_release: asks holders of a name to finish; changes nothing.
-- KEYS    name (2)
-- ARGV    channel of managers, capacity; then the owners that are asked, at most `room` (none: all)
-- returns the owners that hold; if all are asked: only the first `room` were, so ask the others by their names
-- If a command is denied: nothing was changed; a message may fail.
local state, named, held = read_state(1, ARGV[2], {}), { unpack(ARGV, 3) }, {}
local now = clock(state)
local owners = named[1] and named or redis.call('ZRANGEBYSCORE', state.order, '(' .. text(now), '(' .. FIRST)
fetch(state, { unpack(owners, 1, math.min(room, #owners)) })
for i, owner in ipairs(owners) do
  if i > room then
    held[#held + 1] = owner
  elseif holder(state, owner) and tonumber(redis.call('ZSCORE', state.order, owner) or 0) > now then
    redis.pcall('PUBLISH', ARGV[1] .. string.match(owner, '^[^:]*'), 'wanted ' .. owner)
    held[#held + 1] = owner
  end
end
return held
