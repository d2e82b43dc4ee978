-- KEYS as renew     ARGV holders (32 digits each, together), ttl of each or one of all     as renew
-- Few arguments, for the client that writes them; to the server it is the same.
local holders, ttls = A[1], A
A = {}
for i = 1, #K / 3 do
  A[2 * i - 1], A[2 * i] = string.sub(holders, 32 * i - 31, 32 * i), ttls[i + 1] or ttls[2]
end
--@renew
