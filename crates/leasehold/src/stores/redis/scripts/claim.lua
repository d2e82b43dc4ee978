-- KEYS[6] the largest epoch seen     ARGV run id, replication id, epoch, and as acquire
-- {1, 'epoch counter'} granted · {-1} another incarnation · {-2} an epoch that is over · {-3} its lease has a later one ·
-- else as acquire
--@incarnation
if not is_served(A[1], A[2]) then return { -1 } end
--@tag
local route, watermark, holder = A[3], table.remove(K), A[4]
local epoch, seen = tonumber(route), tonumber(call('GET', watermark) or '0')
if epoch < seen then return { -2 } end
if epoch > seen then call('SET', watermark, route) end
A = { unpack(A, 4) }

local value = call('GET', K[1])
local tag, token
if value then tag, token = tagged(value) end
local is_own = value == holder or value == '!' .. holder
if is_own and tag and tag > epoch then return { -3 } end
if value and tag and tag < epoch then
  call('DEL', K[1])
  is_own = false
end
if not is_own then token = nil end

local function acquire()
--@acquire
end

local answer = acquire()
if type(answer) == 'number' or answer[1] == 1 then
  if not token then
    token = route .. ' ' .. call('HGET', K[2], 't')
    call('HSET', K[2], 'g', route .. ' ' .. holder .. ' ' .. token)
  end
  return { 1, token }
end
if answer[1] == 2 then with_epoch(answer, 6) end
return answer
