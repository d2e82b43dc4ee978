-- ARGV waiter channel-prefix     Out of the queue; what was granted meanwhile is free again, its work never begun.
local waited = forget_waiter(A[1]) > 0
judge(A[1], 'unstarted', '')
if not free(A[1], 0, A[2]) and waited and call('HGET', K[2], 'q') then
  local n = tonumber(call('HGET', K[2], 'n') or '1') or 1
  local taken = call('EXISTS', K[1]) + call('ZCOUNT', K[5], '(' .. text(now), '+inf')
  if n > taken then wake(A[2], n - taken) end
end
return 1
