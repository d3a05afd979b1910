-- changes: the fields to write of a name, with their values: of owners, and of the name itself. Follows record.lua.
-- What lets nobody in makes no hash.
-- If a command is denied: it reads only, so nothing was changed.
local function changes(state)
  local kept, fields = state.kept, state.fields
  if state.fresh and not state.grows then return nil end
  for at = state.fresh and 1 or 2, #FIELDS do
    local value, was = state[FIELDS[at]] or VERSION, kept[at] or at > ALWAYS and '0'
    local number = type(value) == 'number'
    if not was or value ~= (number and 0 + was or was) then
      fields = fields or {}
      fields[#fields + 1], fields[#fields + 2] = FIELDS[at], number and text(value) or value
    end
  end
  return fields
end
