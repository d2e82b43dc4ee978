-- ARGV holder channel-prefix hands-over(1|0) [rest verdict(''|'done'|'failed'|'unstarted') tick]     1 freed · 0 not this holder's
-- Most releases have nothing to say, and nobody who waits for them.
local plain = not A[4] and call('GET', K[1]) == A[1]
if plain then
  call('DEL', K[1])
  if call('EXISTS', K[3]) == 0 and not K[6] then return 1 end
end
--@time
--@queue
if plain then
  signal()
  pass_on(A[2], A[3])
  return 1
end
--@tokens
--@standing
--@ending

local holder, rest, verdict, tick = A[1], tonumber(A[4] or 0), A[5] or '', A[6]
judge(holder, verdict, tick)
if verdict ~= '' then
  local h = call('HMGET', K[2], 'k', 'r')
  -- What is remembered for a while is so from its end on.
  if h[1] then call('PEXPIRE', K[2], text(tonumber(h[1]) + 172800000)) end
  if h[2] then call('HSET', K[2], 'f', text(now + h[2])) end
end
if not free(holder, rest) then return 0 end
if rest == 0 then pass_on(A[2], A[3]) end
return 1
