-- nest: raises an owner's depth in all its names, and extends the hold.
-- KEYS    state; repeated
-- ARGV    owner, fence, ttl ms, depth
-- returns 'kept <pttl>' | 'missing <deleted or taken_over>'
-- It never lowers or shortens, so a copy of the request changes nothing. If one name is missing, none changes.
-- If a command is denied: some names may be deeper than others, until the owner ends.
local names, gone, pttl = {}, nil, math.huge
for at = 1, #KEYS do
  local name = read(at)
  names[at] = name
  local held = name.owner == ARGV[1] and name.fence == ARGV[2]
  if not held then gone = worse(gone, name.live and 'taken_over' or 'deleted') end
end
if gone then return 'missing ' .. gone end
for _, name in ipairs(names) do
  if tonumber(ARGV[4]) > tonumber(name.depth) then name.depth = ARGV[4] end
  name.expires = math.max(name.expires, now + ARGV[3])
  write(name)
  pttl = math.min(pttl, name.expires - now)
end
return string.format('kept %.0f', pttl)
