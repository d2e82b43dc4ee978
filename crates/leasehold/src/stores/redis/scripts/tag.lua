-- Under which route the lease was granted that a value of the lock's key stands for, and its token: a number, or
-- epoch and counter, for both together are more than a number here has room for.
-- Nothing where the hash tells of another lease, or of one without a route.
local function tagged(value)
  local tag, holder, token = string.match(call('HGET', K[2], 'g') or '', '^(%d+) (%S+) (%d+ ?%d*)$')
  if tag and string.match(value, '^[!-]?(.*)$') == holder then return tonumber(tag), token end
end

-- Puts the token of such a lease where that of the first holder is told.
local function with_epoch(told, at)
  local _, token = tagged(told[at] or '')
  if token then told[at + 3] = token end
end
