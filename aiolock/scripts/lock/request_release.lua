-- request_release: asks the holder of a name to finish; changes nothing.
-- KEYS    state
-- ARGV    the holder that you ask ('': whoever it is), channel of managers
-- returns holder and fence | '' (free)
-- If a command is denied: nothing was changed; the message may fail.
local name = read(1)
if not name.live then return '' end
if ARGV[1] == '' or ARGV[1] == name.owner then
  redis.pcall('PUBLISH', ARGV[2] .. string.match(name.owner, '^[^:]*'), 'wanted ' .. name.owner)
end
return name.owner .. ' ' .. name.fence
