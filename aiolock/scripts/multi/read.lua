-- read: reads all names, and what prevents granting each to the owner. Follows join.
-- KEYS    tombstone of the owner; then state, queue, alive; repeated
-- ARGV    as acquire
-- A name is `mine` if the owner holds it, `given` if the owner is first in its queue, `younger` if a multi lock with a
-- greater number, or of equal ones the greater id, has reserved it, and `blocked` if it is live and none of these. `stands`: the owner is in its queue.
-- returns the names; how many of them the owner was granted for good; and whether any is mine or given
-- If a command is denied: see settle and join.
local function read_all()
  local names, whole, some = {}, 0, false
  for i = 1, (#KEYS - 1) / 3 do
    local name = read(3 * i - 1)
    names[i], name.part, name.mine = name, ARGV[8 + i], name.live and name.owner == owner
    name.stands = not name.mine and redis.call('ZSCORE', KEYS[name.at + 1], owner)
    number = number or name.stands or nil
    if name.mine and name.depth ~= '0' then
      whole = whole + 1
    elseif name.mine then
      number, some = number or name.before, true
    end
  end
  for _, name in ipairs(whole == 0 and names or {}) do
    if not name.live then
      vacate(name)
      if redis.call('EXISTS', KEYS[name.at + 1]) == 1 then
        if number and liveness > 0 then join(name, owner, liveness, ARGV[6], ARGV[4], number) end
        name.given = settle(name, channel, owner, ARGV[3]) == owner
      end
    elseif number and not name.mine and name.depth == '0' and string.find(name.owner, ':+', 1, true) then
      local before, own = tonumber(name.before), tonumber(number)
      name.younger = before > own or (before == own and name.owner > owner)
    end
    some = some or name.given or false
    name.blocked = name.live and not name.mine and not name.younger
  end
  return names, whole, some
end
