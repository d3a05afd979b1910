-- depart: forgets a manager that has closed. What one that died leaves behind is swept up by others: see alive.
-- KEYS    alive; repeated
-- ARGV    manager
-- returns 1
-- If a command is denied: the others sweep it up.
for _, alive in ipairs(KEYS) do redis.call('HDEL', alive, ARGV[1]) end
return 1
