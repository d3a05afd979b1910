-- grant: gives a free name to an owner. Follows state.
-- Its fence is minted once, however many owners are tried. `number`: its queue number, which stands in place of the
-- fence before until its process asks, and so while the depth is 0.
-- If a command is denied: see state.
local function grant(name, owner, depth, expires, process, floor, number)
  if not name.minted then
    local known = math.max(name.fence, tonumber(floor) < 2 ^ 53 and floor or 0) -- no fence is greater
    name.last_fence, name.minted = name.fence, true
    name.fence = string.format('%.0f', math.max(known + 1, time[1] * 1000000 + time[2]))
  end
  name.before = number or name.last_fence
  name.owner, name.depth, name.expires, name.process, name.live = owner, depth, expires, process, true
  write(name)
end
