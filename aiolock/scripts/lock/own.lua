-- own: what an owner has becomes, or stays, a hold for at least `ttl` ms. Follows state.
-- A grant from the queue gets a greater fence if its manager knows of one that is as great (`floor`), and lasts for the
-- ttl, however long it would have lasted; whose fence was before is not known. A hold keeps its fence, and is never
-- shortened.
-- returns nothing
-- If a command is denied: nothing was changed.
local function own(name, ttl, metadata, floor)
  local known, given, ends = tonumber(floor), name.depth == '0', now + ttl
  name.minted, name.last_fence = not given or known >= 2 ^ 53 or tonumber(name.fence) >= known, given and '0' or name.before
  if not given then ends = math.max(name.expires, ends) end
  grant(name, name.owner, given and '1' or name.depth, ends, metadata, floor)
end
