-- KEYS the namespace's     ARGV life into floor     1 · {0} another life is meant
--@whole
if A[2] ~= A[1] then return { 0 } end
whole(A[1], A[3])
return 1
