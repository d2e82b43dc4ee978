-- KEYS the namespace's, since when this life has been known     ARGV life into max_ttl by alone('' | ms) [floor, at the end]
-- 1 taken · {1, 0} not taken · {0} another life is meant · {2, ms} too soon
--@since
--@whole
if A[2] ~= A[1] then return { 0 } end
local known, guard = since(K[2], A[3])
if known < guard then return { 2, guard - known } end

clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local by, at, life = string.match(call('HGET', K[1], 'filled') or '', '^(%S+) (%d+) (.*)$')
if life ~= A[1] then by = nil end
-- One that says where it begins for how long it is alone; one that has begun doesn't.
local may = by == A[4]
if not may and A[5] ~= '' then may = not by or math.abs(now - at) >= tonumber(A[5]) end
if not may then return { 1, 0 } end
call('HSET', K[1], 'filled', A[4] .. ' ' .. string.format('%.0f', now) .. ' ' .. A[1])
if A[6] then whole(A[1], A[6]) end
return 1
