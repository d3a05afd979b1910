-- confirm: gives an owner's hold the fence that a quorum of servers agreed on, instead of the one minted here.
-- KEYS    state
-- ARGV    owner, minted fence, agreed fence
-- returns 1 | 0 (the owner does not hold it, or with another fence, or an earlier holder here had a greater one)
-- The agreed fence may be less than the minted one, which no one has seen; it is never less than what this server knew
-- before. It replaces only the minted one, so a late copy changes nothing.
-- If a command is denied: nothing was changed.
local name, minted, agreed = read(1), ARGV[2], ARGV[3]
if not name.live or name.owner ~= ARGV[1] then return 0 end
if name.fence == minted and tonumber(agreed) >= tonumber(name.before) then
  name.fence = agreed
  write(name)
end
return name.fence == agreed and 1 or 0
