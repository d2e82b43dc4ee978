-- For how long a server has been known as what it is (ms), and the largest max_ttl (ms) of all; begun where it isn't.
local function since(key, max_ttl)
  local clock = redis.call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  local known = redis.call('HMGET', key, 'since', 'max')
  local since, max = tonumber(known[1]) or now, math.max(tonumber(known[2]) or 0, tonumber(max_ttl))
  redis.call('HSET', key, 'since', string.format('%.0f', since), 'max', string.format('%.0f', max))
  redis.call('PEXPIRE', key, 34560000000)
  return now - since, max
end
