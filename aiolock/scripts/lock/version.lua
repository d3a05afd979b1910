-- version: refuses a key that another version of aiolock has written, or someone else.
-- `kept` is the answer of HMGET of its field `version` and others, by redis.pcall. Before 0.3 there was no such field: a
-- lock was text. `old` is the version whose hash of this kind had none.
-- raises 'WRONGVERSION <theirs> <key>', or WRONGTYPE
-- If a command is denied: it raises, and nothing was changed.
local VERSION = '0.3'
local function check(key, kept, old)
  local version = kept[1]
  if version == VERSION then return end
  if kept.err then
    local text = redis.pcall('GET', key)
    version = type(text) == 'string' and string.find(text, '^%S+ %d+ %d+ %d+ %d %d+ ') and '0.2'
    if not version then redis.call('HMGET', key, 'version') end -- raises
  elseif not version and redis.call('EXISTS', key) == 0 then
    return
  end
  version = version or old
  error(version and 'WRONGVERSION ' .. version .. ' ' .. key or 'WRONGTYPE the key holds a hash that aiolock has not written')
end
