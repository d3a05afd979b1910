-- each: answers each part of a batch by itself: `keys` KEYS and `args` ARGV a part, the first of them ARGV[first].
-- If a command is denied: that part's answer is the error's text, and the others are done.
local function each(answer, keys, args, first)
  local answers = {}
  for i = 0, #KEYS / keys - 1 do
    local done, result = pcall(answer, 1 + i * keys, first + i * args)
    -- A caught error is a table on some servers, and text on others.
    answers[i + 1] = done and result or 'error ' .. (type(result) == 'table' and result.err or result)
  end
  return answers
end
