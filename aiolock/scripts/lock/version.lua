-- version: refuses a key that another version of aiolock has written, or someone else, or whose numbers someone changed.
-- `kept` is the answer of HMGET of its field `version` and others, by redis.pcall. Before 0.3 there was no such field: a
-- lock was text. `old` is the version whose hash of this kind had none. The values from `first` to `last`, if you give
-- them, are whole numbers of at most 16 digits, or missing.
-- raises 'WRONGVERSION <theirs> <key>', 'BADSTATE <key>', or WRONGTYPE
-- If a command is denied: it raises, and nothing was changed.
local VERSION, find = '0.3', string.find
local function check(key, kept, old, first, last)
  local version = kept[1]
  if version == VERSION then
    for at = first or 1, last or 0 do
      local number = kept[at]
      if number and (#number > 16 or find(number, '^%d+$') ~= 1) then error('BADSTATE ' .. key) end
    end
    return
  end
  if kept.err then
    local text = redis.pcall('GET', key)
    version = type(text) == 'string' and find(text, '^%S+ %d+ %d+ %d+ %d %d+ ') and '0.2'
    if not version then redis.call('HMGET', key, 'version') end -- raises
  elseif not version and redis.call('EXISTS', key) == 0 then
    return
  end
  version = version or old
  if not version then error('WRONGTYPE the key holds a hash that aiolock has not written') end
  error((find(version, '^%d+%.[%d.]+$') and #version < 16 and 'WRONGVERSION ' .. version or 'BADSTATE') .. ' ' .. key)
end
