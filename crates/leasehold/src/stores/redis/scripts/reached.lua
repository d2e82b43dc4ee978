-- KEYS how long it has been reached, and when last     ARGV epoch anew('1' | '0') longest(ms)     for how long, and since when nobody had looked (ms)
--@incarnation
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local route = A[1] .. ' ' .. (string.match(server, 'run_id:(%w+)') or '') .. ' '
  .. (string.match(replication, 'master_replid:(%w+)') or '')
local known, span, last = string.match(call('GET', K[1]) or '', '^(.*) (%d+) (%d+)$')
local gap, longest = now - (tonumber(last) or now), tonumber(A[3])
if known ~= route or A[2] == '1' or gap < 0 then span, gap = 0, 0 end
-- Where nobody has looked for so long, nobody knows.
span = tonumber(span) + (gap > longest and math.floor(longest / 2) or gap)
-- Whoever comes once a week is enough.
call('SET', K[1], string.format('%s %.0f %.0f', route, span, now), 'PX', '2592000000')
return { span, gap }
