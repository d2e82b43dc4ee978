-- KEYS[7] since when this life has been known
-- ARGV life into max_ttl token newest|'' floor|'' kept_for(ms) [tick, 'holder attempts once']…
-- 1 · {0} another life is meant · {2, ms} too soon
--@clock
--@life
--@since
if A[2] ~= life then return { 0 } end
local known, guard = since(K[7], A[3])
if known < guard then return { 2, guard - known } end

local token = tonumber(A[4])
if token > counter then
  -- A lease that there is keeps its own.
  count_to(call('EXISTS', K[1]) == 1 and 'c' or 't', token)
end
if not full then
  local open, mark = close(), tonumber(h[3] or '-1')
  for i = 8, #A, 2 do
    local tick = A[i]
    local past = tonumber(tick) <= (tick == '0' and mark or math.max(mark, floor))
    -- Past and not open here: it is closed, though others may not have heard of that.
    if open[tick] or not past then call('HSET', K[2], 'o:' .. tick, A[i + 1]) end
  end
  mark = math.max(mark, tonumber(A[5]) or -1)
  if mark >= 0 then call('HSET', K[2], 'm', text(mark)) end
  -- A key is remembered for as long as they keep its name, and not for ever.
  if mark == 0 and tonumber(A[7]) > 0 then call('HSET', K[2], 'f', text(now + A[7]), 'r', A[7]) end
  call('HSET', K[2], 'a', life, 'b', text(math.max(floor, tonumber(A[6]) or 0)))
end
call('HSET', K[6], 'life', life)
-- As long as the others do: longer, and where members come back again and again names would stay for ever.
if h[7] then
  keep(h[7], math.max(tonumber(A[7]) - 172800000, 0))
else
  call('PEXPIRE', K[2], text(math.max(tonumber(A[7]), 600000)))
end
return 1
