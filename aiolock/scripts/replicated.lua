-- replicated: what precedes each script that grants or extends, on a node of a cluster whose replicas must acknowledge.
-- KEYS    those of the script
-- It writes, whatever the script does: WAIT looks at what its own connection wrote, and the script may answer with a
-- grant that another one wrote. Elsewhere a PUBLISH is that write, but a cluster does not replicate it.
-- If a command is denied: nothing was changed. At the memory limit this write succeeds, and so do those that follow:
-- what is granted there is granted whole; of a name without keys nothing is written.
for _, key in ipairs(KEYS) do
  local ms = redis.call('PTTL', key)
  if ms > 0 then
    redis.call('PEXPIRE', key, string.format('%.0f', ms))
    break
  end
end
