-- ARGV holder rest verdict(''|'done'|'failed'|'unstarted') tick channel-prefix     1 freed · 0 not this holder's
judge(A[1], A[3], A[4])
if A[3] ~= '' then
  local h = call('HMGET', K[2], 'k', 'r')
  -- What is remembered for a while is so from its end on.
  if h[1] then call('PEXPIRE', K[2], text(tonumber(h[1]) + 172800000)) end
  if h[2] then call('HSET', K[2], 'f', text(now + h[2])) end
end
return free(A[1], tonumber(A[2]), A[5]) and 1 or 0
