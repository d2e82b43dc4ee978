-- KEYS order texts (see note)    ARGV since most [last id]: only what comes after that one     at, id, text, at, …
--@clock
local most, top, last = tonumber(A[2]), A[3] or '+inf', A[4]
local found, group, at, from = {}, {}, nil, 0

-- Those of one instant, in the order of their ids.
local function tell()
  table.sort(group)
  for _, id in ipairs(group) do
    local till, said = string.match(call('HGET', K[2], id) or '0 ', '^(%d+) (.*)$')
    local is_after = not last or at ~= top or id > last
    if is_after and tonumber(till) > now and #found < 3 * most then
      found[#found + 1] = at
      found[#found + 1] = id
      found[#found + 1] = said
    end
  end
  group = {}
end

repeat
  local page = call('ZREVRANGEBYSCORE', K[1], top, A[1], 'WITHSCORES', 'LIMIT', from, 100)
  for i = 1, #page, 2 do
    if page[i + 1] ~= at then tell() end
    at = page[i + 1]
    group[#group + 1] = page[i]
  end
  from = from + 100
until #page < 200 or #found >= 3 * most
tell()
return found
