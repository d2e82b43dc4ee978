-- ARGV holder|'' how('gently'|'now') channel-prefix(see pass_on)     As inspect, of those that were hit.
--@clock
--@standing
--@queue
--@ending
--@tag

local n, token = unpack(call('HMGET', K[2], 'n', 't'))
local told = holders(call('GET', K[1]), token, n)
with_epoch(told, 1)
local hit = { count_waiters(), n or '1', now }
for i = 1, #told, 6 do
  local who, mark, left = told[i], told[i + 1], tonumber(told[i + 5])
  if left ~= 0 and (A[1] == '' or (who == A[1] and mark ~= '-')) then
    for j = i, i + 5 do hit[#hit + 1] = told[j] end
    local value = mark == '?' and who or mark .. who
    local in_pool = call('ZSCORE', K[5], value)
    if A[2] == 'now' then
      if in_pool then call('ZREM', K[5], value) call('HDEL', K[2], 'p:' .. who) else call('DEL', K[1]) signal() end
    elseif mark == '' then
      if in_pool then
        call('ZREM', K[5], value)
        call('ZADD', K[5], in_pool, '!' .. who)
        pool_ends()
      else
        call('SET', K[1], '!' .. who, 'KEEPTTL')
      end
    end
  end
end
if #hit == 3 then return {} end
if A[2] == 'now' then
  pass_on(A[3])
  -- Who waits for a quorum hears of it as of a release there: see conclude.lua.
  redis.pcall('PUBLISH', string.match(A[3], '^-?(.*)$') .. K[1], '- - - ' .. K[1])
end
return hit
