-- names: whether the owner holds locks. Follows lock/state.
-- KEYS    last write; then as many states as ARGV[4] says
-- ARGV    as write
-- If a command is denied: it reads only, so nothing was changed.
local function held()
  for at = 2, 1 + ARGV[4] do
    local name = read(at)
    if not name.live or name.owner ~= ARGV[1] or tonumber(name.fence) > tonumber(ARGV[2]) then return false end
  end
  return true
end
