-- request_release: asks holders of a name to finish; changes nothing.
-- KEYS    name (2)
-- ARGV    channel of managers, capacity, how many holders to pass over; then the owners that are asked (none: all)
-- returns {how many it has looked at, the owners that hold and were asked}
-- If a command is denied: nothing was changed; a message may fail.
local state, asked = read_state(1, ARGV[2], {}), {}
local now, owners = clock(state), { unpack(ARGV, 4) }
if #owners == 0 then
  owners = redis.call('ZRANGEBYSCORE', state.order, '(' .. text(now), '(' .. FIRST, 'LIMIT', ARGV[3], room)
end
fetch(state, owners)
for _, owner in ipairs(owners) do
  if holder(state, owner) and tonumber(redis.call('ZSCORE', state.order, owner) or 0) > now then
    redis.pcall('PUBLISH', ARGV[1] .. string.match(owner, '^[^:]*'), 'wanted ' .. owner)
    asked[#asked + 1] = owner
  end
end
return { #owners, asked }
