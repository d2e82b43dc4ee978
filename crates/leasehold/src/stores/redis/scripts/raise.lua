-- KEYS the largest epoch seen     ARGV an epoch     1
if tonumber(A[1]) > tonumber(call('GET', K[1]) or '0') then call('SET', K[1], A[1]) end
return 1
