-- KEYS as renew     ARGV run id, replication id, epoch, and as renew     {-1} another incarnation · else as renew
--@incarnation
if not is_served(A[1], A[2]) then return { -1 } end
local route = A[3]
A = { unpack(A, 4) }
for i = 1, #A / 2 do
  local known = redis.pcall('HGET', K[3 * i - 1], 'g')
  local tag = type(known) == 'string' and string.match(known, '^(%d+ %S+) ')
  if tag ~= route .. ' ' .. A[2 * i - 1] then A[2 * i - 1] = 0 end -- nobody's: no value is a number
end
--@renew
