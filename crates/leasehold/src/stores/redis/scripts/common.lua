-- Whose a value is, and what is said of it.
local function owner(value)
  local mark = string.sub(value, 1, 1)
  if mark == '!' or mark == '-' then return string.sub(value, 2), mark end
  return value, ''
end

-- Permits that are taken: lists of value and end. Those whose time is over are taken out.
local function pool()
  local over = call('ZRANGEBYSCORE', K[5], '-inf', text(now))
  for _, value in ipairs(over) do
    call('HDEL', K[2], 'p:' .. owner(value))
  end
  if #over > 0 then call('ZREMRANGEBYSCORE', K[5], '-inf', text(now)) end
  return call('ZRANGE', K[5], 0, -1, 'WITHSCORES')
end

-- The end of the pool's own key: when its last member is over.
local function pool_ends()
  local last = call('ZRANGE', K[5], -1, -1, 'WITHSCORES')[2]
  if last then call('PEXPIREAT', K[5], text(tonumber(last) + 1000)) end
end

-- What there is to say of those who hold the name: holder, mark, label, token, granted, left (ms) for each.
local function holders()
  local h = call('HMGET', K[2], 'h', 'l', 't', 'n')
  local told = {}
  local value = call('GET', K[1])
  if value then
    local who, mark = owner(value)
    local left = call('PTTL', K[1])
    if left == 0 then left = 1 end -- it is there, for less than a millisecond more
    if h[1] == who then told = { who, mark, h[2] or '', h[3] or '0', granted_at(h[3]), left }
    else told = { value, '?', '', '0', '0', left } end
  end
  local members = h[4] == '1' and {} or pool()
  for i = 1, #members, 2 do
    local who, mark = owner(members[i])
    local token, granted, label = string.match(call('HGET', K[2], 'p:' .. who) or '', '^(%d+) (%d+) (.*)$')
    for _, field in ipairs({ who, mark, label or '', token or '0', granted or '0', members[i + 1] - now }) do
      told[#told + 1] = field
    end
  end
  if #told == 0 and h[1] then told = { h[1], '-', h[2] or '', h[3] or '0', granted_at(h[3]), 0 } end
  return told, h[4] or '1'
end

-- The live waiters in order, at most so many, whoever asks being one; the dead ones before them are taken out. An
-- entry from the future is as dead as an old one: the clock was set back.
local function waiters(most, me)
  local live, from = {}, 0
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
    end
  end
  if #live == 0 and most > 0 then call('HDEL', K[2], 'q') end
  return live
end

local function count_waiters()
  if not call('HGET', K[2], 'q') then return 0 end
  return #waiters(1000000)
end

-- Wakes one who waits with python-redis-lock: KEYS[6], a list, where there is one.
local function signal()
  if not K[6] then return end
  call('DEL', K[6])
  call('LPUSH', K[6], 1)
  call('PEXPIRE', K[6], 1000)
end

local function forget_waiter(waiter)
  return call('ZREM', K[3], waiter) + call('HDEL', K[4], waiter)
end

-- Tells a waiter's client, and whether anybody heard it. Without the right to publish waiters look by themselves.
local function ring(prefix, waiter, what)
  local heard = redis.pcall('PUBLISH', prefix .. waiter.client, what .. ' ' .. K[1])
  return type(heard) == 'number' and heard > 0
end

-- Something of the name is free: hands the lock over to the first who waits, or wakes as many as there are permits.
-- Who doesn't hear it is not given it, for it may be dead: it will look, or be forgotten.
local function pass_on(prefix, hands_over)
  local h = call('HMGET', K[2], 'q', 'n', 't')
  if not h[1] then return end
  if h[2] == '1' then
    local first = call('EXISTS', K[1]) == 0 and waiters(1)[1]
    if not first then return end
    if first.sent == '-' or hands_over ~= '1' then
      ring(prefix, first, '- - -')
      return
    end
    local token = text(next_token(h[3]))
    if ring(prefix, first, first.id .. ' ' .. token .. ' ' .. first.sent) then
      call('SET', K[1], first.id, 'PX', first.ttl)
      call('HSET', K[2], 't', token, 'h', first.id, 'l', first.label)
      forget_waiter(first.id)
    end
    return
  end
  local free = (tonumber(h[2]) or 1) - call('EXISTS', K[1]) - call('ZCOUNT', K[5], '(' .. text(now), '+inf')
  for _, waiter in ipairs(waiters(free)) do ring(prefix, waiter, '- - -') end
end

-- What became of a tick: done <tick>, failed, unstarted. Counts whoever holds the name by now.
local function judge(holder, verdict, tick)
  if verdict == '' then return end
  if verdict == 'done' then
    call('HDEL', K[2], 'o:' .. tick)
    return
  end
  local fields = call('HGETALL', K[2])
  for i = 1, #fields, 2 do
    local who, attempts, once = string.match(fields[i + 1], '^(%S+) (%d+) ([01])$')
    if string.sub(fields[i], 1, 2) == 'o:' and who == holder then
      if verdict == 'failed' and once == '1' then call('HDEL', K[2], fields[i])
      elseif verdict == 'unstarted' then
        call('HSET', K[2], fields[i], '- ' .. math.max(attempts - 1, 0) .. ' ' .. once)
      end
    end
  end
end

-- Ends the holder's lease, if it is alive; nobody else gets it for `rest` ms. Answers whether it was.
local function free(holder, rest)
  local value = call('GET', K[1])
  if value and (value == holder or value == '!' .. holder) then
    if rest > 0 then call('SET', K[1], '-' .. holder, 'PX', text(rest)) else call('DEL', K[1]) signal() end
    return true
  end
  local freed = false
  for _, member in ipairs({ holder, '!' .. holder }) do
    local ends = call('ZSCORE', K[5], member)
    if ends and tonumber(ends) > now then
      call('ZREM', K[5], member)
      if rest > 0 then
        call('ZADD', K[5], text(now + rest), '-' .. holder)
        pool_ends()
      else
        call('HDEL', K[2], 'p:' .. holder)
      end
      freed = true
    end
  end
  return freed
end
