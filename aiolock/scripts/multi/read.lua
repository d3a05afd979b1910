-- read: reads all names, and what stands against granting them to the owner.
-- KEYS    tombstone of the owner; then lock, state, mark of those who poll; repeated
-- returns a table: the parts; `fence` is the owner's, or the one given; `highest` that of any name; `mine` how many
--         names are the owner's; `gone` why others are not; `blocker` the first of those that somebody holds, and
--         `wait` the most ms that any of them has left (-1: without expiry)
-- If a command is denied: nothing was changed.
local function read_all(owner, fence, floor)
  local seen = {fence = fence, highest = floor < 2 ^ 53 and floor or 0, mine = 0, wait = 0} -- nobody was given more
  for i = 1, (#KEYS - 1) / 3 do
    local one = part(3 * i - 1, owner)
    seen[i] = one
    seen.highest = math.max(seen.highest, tonumber(one.fence or 0))
    if one.count then
      seen.mine = seen.mine + 1
      if one.fence and (one.owner ~= owner or (seen.fence ~= '0' and one.fence ~= seen.fence)) then
        seen.gone = 'taken_over'
      end
      seen.fence = one.fence or seen.fence
    else
      seen.gone = worse(seen.gone, one.gone)
      if one.pttl ~= -2 then
        seen.blocker = seen.blocker or i
        if one.pttl == -1 or seen.wait == -1 then seen.wait = -1 else seen.wait = math.max(seen.wait, one.pttl) end
      end
    end
  end
  return seen
end
