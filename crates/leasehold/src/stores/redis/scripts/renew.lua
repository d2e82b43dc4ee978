-- KEYS lock, hash, pool of each lease     ARGV holder, ttl of each     a digit for each: 1 renewed · 2 revoked · 0 gone
local answers, now = {}, nil

local function text(number) return string.format('%.0f', number) end

-- Whether it is one of several permits.
local function renew_permit(hash, pool, holder, ttl)
  if not now then
    local clock = call('TIME')
    now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  end
  local ends = tonumber(call('ZSCORE', pool, holder) or '0')
  if ends > now then
    if ends < now + ttl then
      call('ZADD', pool, text(now + ttl), holder)
      call('PEXPIREAT', pool, text(call('ZRANGE', pool, -1, -1, 'WITHSCORES')[2] + 1000))
    end
    return 1
  end
  return tonumber(call('ZSCORE', pool, '!' .. holder) or '0') > now and 2 or 0
end

for i = 1, #A / 2 do
  local lock, hash, pool = K[3 * i - 2], K[3 * i - 1], K[3 * i]
  local holder, ttl = A[2 * i - 1], tonumber(A[2 * i])
  -- What is known of a name must not end before a hold that lasts for weeks.
  if call('PTTL', hash) < 259200000 then call('PEXPIRE', hash, 777600000) end
  -- Something of another program under one lock's key must not keep the rest of the batch from being renewed.
  local value = redis.pcall('GET', lock)
  if value == holder then
    -- Never back: an overtaken renewal must not cut what a later one has promised.
    if call('PTTL', lock) < ttl then call('PEXPIRE', lock, ttl) end
    answers[i] = 1
  elseif value == '!' .. holder then
    answers[i] = 2
  elseif value or redis.call('TYPE', pool).ok ~= 'zset' then
    answers[i] = 0
  else
    answers[i] = renew_permit(hash, pool, holder, ttl)
  end
end
return table.concat(answers)
