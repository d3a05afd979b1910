-- worse: the more serious of two reasons: a name that was taken matters more than one that is free.
-- returns nothing
-- If a command is denied: nothing was changed.
local function worse(one, other)
  return one == 'taken_over' and one or other
end
