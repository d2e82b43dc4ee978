-- KEYS lock, hash, pool of each lease     ARGV holder, ttl of each     1 renewed · 2 revoked · 0 gone
local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local answers = {}
for i = 1, #ARGV / 2 do
  local lock, hash, pool = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local holder, ttl = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  -- What is known of a name must not end before a hold that lasts for weeks.
  if call('PTTL', hash) < 259200000 then call('PEXPIRE', hash, 777600000) end
  -- Something of another program under one lock's key must not keep the rest of the batch from being renewed.
  local value = redis.pcall('GET', lock)
  local ends = redis.pcall('ZSCORE', pool, holder)
  local revoked = redis.pcall('ZSCORE', pool, '!' .. holder)
  if type(value) == 'table' or type(ends) == 'table' then
    answers[i] = 0
  elseif value == holder then
    -- Never back: an overtaken renewal must not cut what a later one has promised.
    if call('PTTL', lock) < ttl then call('PEXPIRE', lock, ttl) end
    answers[i] = 1
  elseif value == '!' .. holder then
    answers[i] = 2
  elseif value then
    answers[i] = 0
  else
    ends, revoked = tonumber(ends or '0'), tonumber(revoked or '0')
    answers[i] = 0
    if ends > now then
      if ends < now + ttl then
        call('ZADD', pool, string.format('%.0f', now + ttl), holder)
        local last = call('ZRANGE', pool, -1, -1, 'WITHSCORES')[2]
        call('PEXPIREAT', pool, string.format('%.0f', last + 1000))
      end
      answers[i] = 1
    elseif revoked > now then
      answers[i] = 2
    end
  end
end
return answers
