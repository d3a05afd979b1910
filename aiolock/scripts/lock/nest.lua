-- nest: raises an owner's depth, and extends its hold.
-- KEYS    state
-- ARGV    owner, fence, ttl ms, depth
-- returns 'kept <pttl>' | 'missing <deleted or taken_over>'
-- It never lowers or shortens, so a copy of the request changes nothing.
-- If a command is denied: nothing was changed.
local name = read(1)
if name.owner ~= ARGV[1] or name.fence ~= ARGV[2] then
  return name.live and 'missing taken_over' or 'missing deleted'
end
if tonumber(ARGV[4]) > tonumber(name.depth) then name.depth = ARGV[4] end
name.expires = math.max(name.expires, now + ARGV[3])
write(name)
return string.format('kept %.0f', name.expires - now)
