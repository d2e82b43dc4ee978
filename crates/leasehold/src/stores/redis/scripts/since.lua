-- KEYS a server's own     ARGV max_ttl (ms)     {for how long it has been known (ms), the largest max_ttl of all (ms)}
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local known = redis.call('HMGET', KEYS[1], 'since', 'max')
local since, max = tonumber(known[1]) or now, math.max(tonumber(known[2]) or 0, tonumber(ARGV[1]))
redis.call('HSET', KEYS[1], 'since', string.format('%.0f', since), 'max', string.format('%.0f', max))
redis.call('PEXPIRE', KEYS[1], 34560000000)
return { now - since, max }
