-- ARGV holder ttl label [permits [queue(client|'') ticket|'' sent|'-' [tick retry('1'|'0') keep]]]
-- token, or {1, token, attempt, gave up|''} granted · {2, now, ahead, ticket|'', permits, holders…} held
-- {3, newest, unfinished} claimed before · {4, ms} ahead of the clock · {5, ms} behind it · {6, permits} another number
clock = call('TIME')
local h = call('HMGET', K[2], 't', 'q', 'd', 'n')

-- Most claims are for a lock that is free, is known as such and has nobody in its way. (`token` and `now` again: what
-- stands here is what such a claim costs.) A clock that is an hour behind the last token goes the long way.
local last, seconds = tonumber(h[1]) or 0, clock[1] + 0 -- once: a text that is a number costs 600 instructions each time
if not h[2] and h[4] == '1' and h[3] == string.sub(clock[1], 1, 5) and (A[4] or '1') == '1' and not A[8]
    and last < (seconds - 1577833200) * 16000
    and call('SET', K[1], A[1], 'NX', 'PX', A[2]) then
  local now = seconds * 1000 + math.floor(clock[2] / 1000)
  local token = math.max(last + 1, (now - 1577836800000) * 16)
  call('HSET', K[2], 't', token, 'h', A[1], 'l', A[3])
  return token
end
--@clock
--@standing
--@line

local fault = clock_fault(last)
if fault then return fault end
local holder, ttl, permits, client, tick = A[1], tonumber(A[2]), A[4] or '1', A[5] or '', A[8] or ''
local token, queued, day, n = unpack(h)

local function attempts()
  if tick == '' then return 0 end
  local who, count = string.match(call('HGET', K[2], 'o:' .. tick) or '', '^(%S+) (%d+)')
  return who == holder and tonumber(count) or 0
end

-- The same holder, alive: the same grant, its end moved and never back.
local value = call('GET', K[1])
if value == holder and token then
  if call('PTTL', K[1]) < ttl then call('PEXPIRE', K[1], ttl) end
  forget_waiter(holder)
  return { 1, token, attempts(), '' }
end
local pooled = n ~= '1'
local ends = pooled and call('ZSCORE', K[5], holder)
if ends and tonumber(ends) > now then
  if tonumber(ends) < now + ttl then call('ZADD', K[5], text(now + ttl), holder) pool_ends() end
  forget_waiter(holder)
  return { 1, string.match(call('HGET', K[2], 'p:' .. holder) or '0', '^(%d+)'), attempts(), '' }
end

-- Who holds it, by value and by holder.
local members = pooled and pool() or {}
local taken, held, alive = 0, false, {}
if value then
  local who, mark = owner(value)
  taken, alive[who] = 1, mark ~= '-'
  held = mark ~= '-'
end
for i = 1, #members, 2 do
  local who, mark = owner(members[i])
  taken, alive[who] = taken + 1, mark ~= '-'
  held = held or mark ~= '-'
end
if held and (n or '1') ~= permits then return { 6, n or '1' } end

local function refused(ahead, ticket)
  local told = holders(value, token, n)
  if #told == 6 then return { 2, now, ahead, ticket, n or '1', unpack(told) } end
  local answer = { 2, now, ahead, ticket, n or '1' }
  for _, field in ipairs(told) do answer[#answer + 1] = field end
  return answer
end

-- A holder that was revoked has its permit until it ends, and gets no other.
if value == '!' .. holder or (pooled and tonumber(call('ZSCORE', K[5], '!' .. holder) or '0') > now) then
  forget_waiter(holder)
  return refused(count_waiters(), '')
end

local retry, ms, idle, open, mark, answer = A[9], A[10], taken == 0
if tick ~= '' then
--@due
  if answer then
    forget_waiter(holder)
    return answer == 'runs' and refused(count_waiters(), '') or answer
  end
end

-- Its place in the queue, and how many live ones stand before it.
local ticket, ahead = '', 0
if client ~= '' then
  ticket = A[6]
  if ticket == '' then
    local last = queued and call('ZRANGE', K[3], '-1', '-1', 'WITHSCORES')[2]
    ticket = text(math.max((tonumber(last) or 0) + 1, clock[1] * 1000000 + clock[2]))
  end
end
if queued then
  if ticket == A[6] and ticket ~= '' then
    call('ZADD', K[3], ticket, holder)
  elseif ticket ~= '' and call('ZADD', K[3], 'NX', ticket, holder) == 0 then
    ticket = call('ZSCORE', K[3], holder) -- the answer that told it was lost
  end
  ahead = ticket ~= '' and call('ZRANK', K[3], holder) or call('ZCARD', K[3])
  if ahead > 0 or ticket == '' then -- the dead ones before the first live one must go; those behind are of no matter
    local first, dead = waiters(1, holder)
    queued, ahead = #first > 0, ahead - dead
  end
end

if tonumber(permits) - taken > ahead then
  token = text(next_token(token))
  if queued or ticket ~= '' then forget_waiter(holder) end
  if permits == '1' then
    call('SET', K[1], holder, 'PX', A[2])
    call('HSET', K[2], 't', token, 'h', holder, 'l', A[3], 'n', permits)
  else
    call('ZADD', K[5], text(now + ttl), holder)
    pool_ends()
    call('HSET', K[2], 't', token, 'h', holder, 'l', A[3], 'n', permits,
      'p:' .. holder, token .. ' ' .. text(now) .. ' ' .. A[3])
  end
  local attempt, gave_up = 0, ''
  if tick ~= '' then
--@begun
  end
  keep(day, tick ~= '' and tonumber(ms) or 0)
  return { 1, token, attempt, gave_up }
end

if ticket ~= '' then
  if not queued then
    call('ZADD', K[3], ticket, holder)
    call('HSET', K[2], 'q', '1')
  end
  call('HSET', K[4], holder, text(now) .. ' ' .. client .. ' ' .. A[7] .. ' ' .. A[2] .. ' ' .. A[3])
  -- Each that comes, and whoever is first each time that it looks: the others need not.
  if ahead == 0 or ticket ~= A[6] then
    call('PEXPIRE', K[3], '10000')
    call('PEXPIRE', K[4], '10000')
  end
  keep(day, 0)
end
return refused(ahead, ticket)
