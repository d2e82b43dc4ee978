--@clock
--@standing
--@line
--@tag

-- Something of another program: said before a command fails over it, and what it is.
for i, kind in ipairs({ 'string', 'hash', 'zset', 'hash', 'zset' }) do
  local found = call('TYPE', K[i]).ok
  if found ~= kind and found ~= 'none' then return redis.error_reply('WRONGTYPE ' .. K[i] .. ' is a ' .. found) end
end

-- {waiting, permits, now, holders…}; nothing if nobody holds it, it isn't kept and nobody waits.
local n, token = unpack(call('HMGET', K[2], 'n', 't'))
local told = holders(call('GET', K[1]), token, n)
with_epoch(told, 1)
local waiting = count_waiters()
if waiting == 0 and (#told == 0 or tonumber(told[6]) == 0) then return {} end
local answer = { waiting, n or '1', now }
for _, field in ipairs(told) do answer[#answer + 1] = field end
return answer
