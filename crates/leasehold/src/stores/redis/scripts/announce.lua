-- KEYS the namespace's     ARGV life into floor     1 · {0} another life is meant
if A[2] ~= A[1] then return { 0 } end
if call('HEXISTS', K[1], 'life') == 0 then call('HSET', K[1], 'announced', A[3] .. ' ' .. A[1]) end
return 1
