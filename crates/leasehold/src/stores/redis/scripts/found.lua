-- KEYS the namespace's     ARGV life into floor     1 · {0} another life is meant
if A[2] ~= A[1] then return { 0 } end
local floor = math.max(tonumber(call('HGET', K[1], 'floor') or '0'), tonumber(A[3]))
call('HSET', K[1], 'life', A[1], 'founded', A[1], 'floor', string.format('%.0f', floor))
return 1
