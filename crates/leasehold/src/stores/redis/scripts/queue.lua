--@line

-- Wakes one who waits with python-redis-lock: KEYS[6], a list, where there is one.
local function signal()
  if not K[6] then return end
  call('DEL', K[6])
  call('LPUSH', K[6], 1)
  call('PEXPIRE', K[6], 1000)
end

-- Tells a waiter's client, and whether anybody heard it. Without the right to publish waiters look by themselves.
local function ring(prefix, waiter, what)
  local heard = redis.pcall('PUBLISH', prefix .. waiter.client, what .. ' ' .. K[1])
  return type(heard) == 'number' and heard > 0
end

-- Something of the name is free: hands the lock over to the first who waits, or wakes as many as there are permits.
-- Who doesn't hear it is not given it, for it may be dead: it will look, or be forgotten. What clients' channels begin with
-- has a '-' before it where nothing is to be handed over.
local function pass_on(where)
  local h = call('HMGET', K[2], 'q', 'n', 't')
  if not h[1] then return end
  local only_wakes, prefix = string.match(where, '^(-?)(.*)$')
  if h[2] == '1' then
    local first = waiters(1)[1]
    if not first then return end
    if first.sent == '-' or only_wakes == '-' then
      ring(prefix, first, '- - -')
      return
    end
    -- Whoever calls may have found nothing to free: what is held, or kept, is not given away.
    if not call('SET', K[1], first.id, 'NX', 'PX', first.ttl) then return end
    local token = text(next_token(h[3]))
    if ring(prefix, first, first.id .. ' ' .. token .. ' ' .. first.sent) then
      call('HSET', K[2], 't', token, 'h', first.id, 'l', first.label)
      forget_waiter(first.id)
    else
      call('DEL', K[1])
    end
    return
  end
  local free = (tonumber(h[2]) or 1) - call('EXISTS', K[1]) - call('ZCOUNT', K[5], '(' .. text(now), '+inf')
  for _, waiter in ipairs(waiters(free)) do ring(prefix, waiter, '- - -') end
end
