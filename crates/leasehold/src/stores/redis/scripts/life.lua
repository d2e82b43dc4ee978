-- What the member of a quorum knows of a name in this life of its server, which ARGV[1] is. KEYS[6] is a hash of the
-- namespace: life (the one in which something was adopted or founded), founded (the one in which it was), floor (up to
-- where ticks count as claimed since), announced (the floor that is to be, and the life in which that was heard).
local life = A[1]
local own = call('HMGET', K[6], 'life', 'founded', 'floor')
local h = call('HMGET', K[2], 't', 'h', 'm', 'a', 'b', 'c', 'd', 'e')
local founded, adopted = own[2] == life, h[4] == life
local full = founded or adopted
local floor = math.max(tonumber(h[5] or '0'), adopted and 0 or tonumber(own[3] or '0'))
-- What stands open may be of an earlier life, and done since.
local current = adopted or h[8] == life
-- Tokens are above what was forgotten when it was founded; the counter may be ahead of the lease that there is.
local least = founded and (own[3] - 1577836800000) * 16 or 0
local lease = tonumber(h[1] or '0')
local counter = math.max(lease, tonumber(h[6] or '0'))

-- Counts up to what others have come to. That may be far ahead of this clock, and says nothing of it then.
local function count_to(field, token)
  call('HSET', K[2], field, text(token))
  if token > (now - 1577833200000) * 16 then call('HSET', K[2], 's', '1') end
end

-- Takes out what stands open; answers what that was, by tick.
local function close()
  local open, fields = {}, call('HGETALL', K[2])
  for i = 1, #fields, 2 do
    local tick = string.match(fields[i], '^o:(%d+)$')
    if tick then
      open[tick] = fields[i + 1]
      call('HDEL', K[2], fields[i])
    end
  end
  return open
end
