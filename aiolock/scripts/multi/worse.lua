-- worse: the graver of two reasons: whoever has taken one name matters more than another name that is free.
-- returns nothing
-- If a command is denied: nothing was changed.
local function worse(one, other)
  return one == 'taken_over' and one or other
end
