-- ARGV holder channel-prefix(see pass_on) [rest verdict(''|'done'|'failed'|'unstarted') tick]     1 freed · 0 not this holder's
-- Most releases have nothing to say, and nobody who waits for them.
local plain = not A[3] and call('GET', K[1]) == A[1]
local first = plain and redis.pcall('ZRANGE', K[3], '0', '0')[1]
if plain and not first and not K[6] then
  call('DEL', K[1])
  return 1
end

-- Of the others most give the lock to the first in line: as `pass_on` does, but straight from hand to hand, and without what
-- that has to ask because it doesn't know who had it. (What stands here is what a hand-over costs, and is late by.)
if first and string.byte(A[2]) ~= 45 then
  clock = call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  local entry, known = redis.pcall('HGET', K[4], first), redis.pcall('HMGET', K[2], 't', 'n')
  local last = known[2] == '1' and tonumber(known[1]) -- of several permits more than this one may be free
  local at, client, sent, ttl, label =
    string.match(type(entry) == 'string' and entry or '', '^(%d+) (%S+) (%d+) (%d+) (.*)$')
  if last and at and math.abs(now - at) <= 1000 then
    local token = math.max(last + 1, (now - 1577836800000) * 16)
    token = string.format('%d%07d', math.floor(token / 10000000), token % 10000000)
    call('HDEL', K[4], first) -- not the last, but the first thing: a full server lets it through, and then the others
    call('SET', K[1], first, 'PX', ttl)
    local heard = redis.pcall('PUBLISH', A[2] .. client, first .. ' ' .. token .. ' ' .. sent .. ' ' .. K[1])
    if type(heard) == 'number' and heard > 0 then
      call('HSET', K[2], 't', token, 'h', first, 'l', label)
      call('ZREM', K[3], first)
    else
      call('DEL', K[1])
      call('HSET', K[4], first, entry)
      call('PEXPIRE', K[4], '10000')
    end
    return 1
  end
end
--@time
--@queue
if plain then
  call('DEL', K[1])
  signal()
  pass_on(A[2])
  return 1
end
--@tokens
--@standing
--@ending

local holder, rest, verdict, tick = A[1], tonumber(A[3] or 0), A[4] or '', A[5]
judge(holder, verdict, tick)
if verdict ~= '' then
  local h = call('HMGET', K[2], 'k', 'r')
  -- What is remembered for a while is so from its end on.
  if h[1] then call('PEXPIRE', K[2], text(tonumber(h[1]) + 172800000)) end
  if h[2] then call('HSET', K[2], 'f', text(now + h[2])) end
end
if not free(holder, rest) then return 0 end
if rest == 0 then pass_on(A[2]) end
return 1
