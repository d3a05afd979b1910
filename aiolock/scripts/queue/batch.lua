-- batch: answers each part of a batch by itself: `keys` KEYS and `args` ARGV per part, from ARGV[first] on with the
-- owner. Each step is taken for all of them, then each name is settled or written; the first answer of a part counts.
-- If a command is denied: the answer of each part of that name is the error's text, and the others are done.
local function batch(keys, args, first, arrive, decide, complete)
  local answers, failed, owners, parts = {}, {}, {}, #KEYS / keys
  local function try(key, step, ...)
    if failed[key] then return nil end
    local done, result = pcall(step, ...)
    -- A caught error is a table on some servers, and text on others.
    if not done then failed[key] = 'error ' .. (type(result) == 'table' and result.err or result) end
    return done and result or nil
  end
  local function all(step)
    for i = 1, parts do
      local k = 1 + (i - 1) * keys
      answers[i] = answers[i] or try(KEYS[k], step, k, first + (i - 1) * args, owners[KEYS[k]])
    end
  end
  for i = 1, parts do
    local key = KEYS[1 + (i - 1) * keys]
    owners[key] = owners[key] or {}
    table.insert(owners[key], ARGV[first + (i - 1) * args])
  end
  all(arrive)
  for _, state in ipairs(states) do try(state.key, settle, state) end
  all(decide)
  for _, state in ipairs(states) do try(state.key, close, state) end
  all(complete)
  for i = 1, parts do answers[i] = failed[KEYS[1 + (i - 1) * keys]] or answers[i] end
  return answers
end
