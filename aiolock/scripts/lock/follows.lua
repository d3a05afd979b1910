-- follows: says whether a hold was granted right after another, with nobody in between; reads only.
-- KEYS    state
-- ARGV    owner, its fence, fence of the other
-- returns 1 | 0 (somebody had the name in between, or that is not known: see grant for what stands in place of `before`)
-- If a command is denied: nothing was changed.
local name = read(1)
return name.owner == ARGV[1] and name.fence == ARGV[2] and name.before == ARGV[3] and 1 or 0
