-- finish: ends a level of an owner in one name, or all that the owner has of it. Follows settle.
-- KEYS    state, queue, alive; from KEYS[at]
-- returns its fence, nil and the rest of its time; or nil and why it is not the owner's
-- If a command is denied: see settle; the owner holds the name, or has left it.
local function finish(at, left, ending, clean)
  local owner, name = ARGV[1], read(at)
  if name.owner ~= owner then
    if left == '0' then redis.call('ZREM', KEYS[at + 1], owner) end
    return nil, name.live and 'taken_over' or 'deleted'
  end
  local fence = name.fence
  if left ~= '0' then
    if tonumber(left) < tonumber(name.depth) then name.depth = left end
    write(name)
  elseif ending ~= 'back' or name.depth == '0' then
    vacate(name, name.depth ~= '0' and (ending == 'clean' and '0' or ending == 'dirty' and '1') or name.abandoned)
    if (settle(name, ARGV[3], nil, '0') or '') == '' then
      write(name, name.abandoned == '0' and clean or math.max(86400000, clean))
    end
  end
  return fence, nil, math.max(0, name.expires - now)
end
