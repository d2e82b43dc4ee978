-- KEYS order (sorted set: id -> when it was written, ms), texts (hash: id -> 'until text')    ARGV most keep [id text]…
--@clock
local most, ttl = tonumber(A[1]), tonumber(A[2])
for i = 3, #A, 2 do
  call('ZADD', K[1], text(now), A[i])
  call('HSET', K[2], A[i], text(now + ttl) .. ' ' .. A[i + 1])
end

local function drop(ids)
  for _, id in ipairs(ids) do
    call('ZREM', K[1], id)
    call('HDEL', K[2], id)
  end
end

local extra = call('ZCARD', K[1]) - most
if extra > 0 then drop(call('ZRANGE', K[1], 0, extra - 1)) end

-- Those whose time is over are not told; they go bit by bit, the oldest first.
local outdated = {}
for _, id in ipairs(call('ZRANGE', K[1], 0, #A)) do
  local till = string.match(call('HGET', K[2], id) or '0', '^%d+')
  if tonumber(till) <= now then outdated[#outdated + 1] = id end
end
drop(outdated)

for _, key in ipairs(K) do
  if call('PTTL', key) < ttl then call('PEXPIRE', key, A[2]) end
end
return 1
