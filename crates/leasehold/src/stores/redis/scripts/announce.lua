-- KEYS the namespace's     ARGV life into floor     1 · {0} another life is meant · {3} it is blank no more
if A[2] ~= A[1] then return { 0 } end
if call('HGET', K[1], 'life') then return { 3 } end
local known, heard_in = string.match(call('HGET', K[1], 'announced') or '', '^(%d+) (.*)$')
if heard_in ~= A[1] or tonumber(known) < tonumber(A[3]) then call('HSET', K[1], 'announced', A[3] .. ' ' .. A[1]) end
return 1
