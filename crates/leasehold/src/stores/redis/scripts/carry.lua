-- KEYS[6] the largest epoch seen     ARGV run id, replication id, epoch, holder ttl label token
-- {1} · {-1} another incarnation · {-2} an epoch that is over · {-3} its lease has a later one · {-4} somebody else has
-- one · {-5} it was revoked
--@incarnation
if not is_served(A[1], A[2]) then return { -1 } end
--@clock
--@standing
--@line
--@tag
local route, watermark, holder, ttl = A[3], table.remove(K), A[4], tonumber(A[5])
local epoch, seen = tonumber(route), tonumber(call('GET', watermark) or '0')
if epoch < seen then return { -2 } end

local value = call('GET', K[1])
local tag = value and tagged(value)
local is_own = value == holder or value == '!' .. holder
if is_own and tag and tag > epoch then return { -3 } end
if value and not (tag and tag < epoch) then
  if value == '!' .. holder then return { -5 } end
  if not is_own then return { -4 } end
  ttl = math.max(ttl, call('PTTL', K[1]))
end
if #pool() > 0 then return { -4 } end

if epoch > seen then call('SET', watermark, route) end
local last, day = unpack(call('HMGET', K[2], 't', 'd'))
call('SET', K[1], holder, 'PX', text(ttl))
call('HSET', K[2], 't', text(next_token(last)), 'h', holder, 'l', A[6], 'n', '1',
  'g', route .. ' ' .. holder .. ' ' .. A[7])
if call('EXISTS', K[3]) == 1 then forget_waiter(holder) end
keep(day, 0)
return { 1 }
