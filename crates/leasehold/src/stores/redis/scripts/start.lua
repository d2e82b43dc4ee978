-- What every script begins with.
--
-- The keys of a name (one slot):
--   KEYS[1] lock   string with a TTL: the holder; '!' before it: revoked; '-' before it: kept after a release
--   KEYS[2] hash   what is known of the name: t token of the last grant, h holder, l label, g granted (ms), n permits,
--                  m mark, o:<tick> 'holder attempts once', p:<holder> 'token granted label' of a permit, q: somebody
--                  queues, f when a key is forgotten (ms), r how long it is remembered (ms), k how long the hash is
--                  kept (ms), d the day on which its end was last pushed out, v version
--   KEYS[3] queue  sorted set: waiter -> ticket
--   KEYS[4] seen   hash: waiter -> 'seen (ms) client sent|- ttl label'
--   KEYS[5] pool   sorted set, where there are several permits: holder -> end (ms); '!' and '-' as above. With n = 1
--                  nothing in it is alive: a lock is granted only once all permits have ended.
--   KEYS[6] list that the waiters of another library block on, where there is one
local call, K, A = redis.call, KEYS, ARGV

local function text(number) return string.format('%.0f', number) end
