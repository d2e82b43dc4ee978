-- The live waiters in order, at most so many, whoever asks being one; the dead ones before them are taken out. An
-- entry from the future is as dead as an old one: the clock was set back. And how many of them there were.
local function waiters(most, me)
  local live, from, dead = {}, 0, 0
  while #live < most do
    local waiter = call('ZRANGE', K[3], from, from)[1]
    if not waiter then break end
    local at, client, sent, ttl, label =
      string.match(call('HGET', K[4], waiter) or '', '^(%d+) (%S+) (%S+) (%d+) (.*)$')
    if waiter == me or (at and math.abs(now - at) <= ENTRY) then
      live[#live + 1] = { id = waiter, client = client, sent = sent, ttl = ttl, label = label }
      from = from + 1
    else
      call('ZREM', K[3], waiter)
      call('HDEL', K[4], waiter)
      dead = dead + 1
    end
  end
  if #live == 0 and most > 0 then call('HDEL', K[2], 'q') end
  return live, dead
end

local function count_waiters()
  if not call('HGET', K[2], 'q') then return 0 end
  return #waiters(1000000)
end

local function forget_waiter(waiter)
  return call('ZREM', K[3], waiter) + call('HDEL', K[4], waiter)
end
