-- ARGV as release. A tick that is done counts as claimed here, too: who hears of it need not have heard of its claim, and
-- doesn't know for how long it is to be remembered.
if A[5] == 'done' then
  local mark = call('HGET', K[2], 'm')
  if not mark or tonumber(A[6]) > tonumber(mark) then
    call('HSET', K[2], 'm', A[6], 'k', '34387200000')
    call('PEXPIRE', K[2], '34560000000')
  end
end
--@release
