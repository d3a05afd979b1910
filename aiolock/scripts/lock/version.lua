-- version: refuses a key that another version of aiolock has written, or someone else.
-- `kept` is the answer of HMGET of its field `version` and others, by redis.pcall. Versions before 0.3 had no such field:
-- a lock was text, the rest were hashes.
-- If a command is denied: it raises, and nothing was changed.
local VERSION = '0.3'
local function check(key, kept)
  if kept[1] == VERSION then return end
  if kept.err then
    local text = redis.pcall('GET', key)
    if type(text) ~= 'string' or not string.find(text, '^%S+ %d+ %d+ %d+ %d %d+ ') then redis.call('HGET', key, 'version') end
  end
  if kept[1] or kept.err or redis.call('EXISTS', key) == 1 then error('WRONGVERSION ' .. (kept[1] or '0.2')) end
end
