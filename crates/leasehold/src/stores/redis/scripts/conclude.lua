-- ARGV as release. A tick that is done counts as claimed here, too: who hears of it need not have heard of its claim, and
-- doesn't know for how long it is to be remembered. Not one that is a day ahead: an operator may have had it forgotten since.
if A[4] == 'done' then
  local mark, clock = call('HGET', K[2], 'm'), call('TIME')
  local is_ahead = tonumber(A[5]) > clock[1] * 1000 + 86400000
  if not is_ahead and (not mark or tonumber(A[5]) > tonumber(mark)) then
    call('HSET', K[2], 'm', A[5])
    if A[5] == '0' then
      -- A key, which the majority that has granted it remembers for as long as it is to be.
      call('HSET', K[2], 'f', string.format('%.0f', clock[1] * 1000 + 604800000), 'r', '604800000')
      if call('PTTL', K[2]) < 777600000 then call('PEXPIRE', K[2], '777600000') end
    else
      call('HSET', K[2], 'k', '34387200000')
      call('PEXPIRE', K[2], '34560000000')
    end
  end
end

local function release()
--@release
end

local answer, prefix = release(), string.match(A[2], '^-?(.*)$')
-- Who waits for a quorum stands in no queue, and hears of it on the name's own channel. Without the right to publish they look
-- by themselves.
if answer == 1 and (A[3] or '0') == '0' then redis.pcall('PUBLISH', prefix .. K[1], '- - - ' .. K[1]) end
return answer
