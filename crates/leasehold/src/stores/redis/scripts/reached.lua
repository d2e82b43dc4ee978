-- KEYS since when it is reached     ARGV epoch anew('1' | '0')     for how long (ms)
--@incarnation
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local route = A[1] .. ' ' .. (string.match(server, 'run_id:(%w+)') or '') .. ' '
  .. (string.match(replication, 'master_replid:(%w+)') or '')
local known, since = string.match(call('GET', K[1]) or '', '^(.*) (%d+)$')
since = tonumber(since)
if known ~= route or A[2] == '1' or since > now then since = now end
-- Whoever comes once a week is enough.
call('SET', K[1], route .. ' ' .. string.format('%.0f', since), 'PX', '2592000000')
return now - since
