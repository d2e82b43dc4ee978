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
  return call('ZRANGE', K[5], '0', '-1', 'WITHSCORES')
end

-- The end of the pool's own key: when its last member is over.
local function pool_ends()
  local last = call('ZRANGE', K[5], '-1', '-1', 'WITHSCORES')[2]
  if last then call('PEXPIREAT', K[5], text(tonumber(last) + 1000)) end
end

-- When the last token was given out (ms), also if it is ahead of this clock.
local function last_granted(token)
  local at = granted_at(token)
  if at <= now then return at end
  local ahead, then_ = string.match(call('HGET', K[2], 'i') or '', '^(%d+) (%d+)$')
  return ahead and tonumber(ahead) == tonumber(token) and tonumber(then_) or at
end

-- What there is to say of those who hold the name: holder, mark, label, token, granted, left (ms) for each. Takes the
-- lock's value, the last token and how many permits there are.
local function holders(value, token, permits)
  local told, h = {}, call('HMGET', K[2], 'h', 'l')
  if value then
    local who, mark = owner(value)
    local left = call('PTTL', K[1])
    if left == 0 then left = 1 end -- it is there, for less than a millisecond more
    if h[1] == who then told = { who, mark, h[2] or '', token or '0', last_granted(token), left }
    else told = { value, '?', '', '0', '0', left } end
  end
  local members = permits == '1' and {} or pool()
  for i = 1, #members, 2 do
    local who, mark = owner(members[i])
    local token, granted, label = string.match(call('HGET', K[2], 'p:' .. who) or '', '^(%d+) (%d+) (.*)$')
    for _, field in ipairs({ who, mark, label or '', token or '0', granted or '0', members[i + 1] - now }) do
      told[#told + 1] = field
    end
  end
  if #told == 0 and h[1] then told = { h[1], '-', h[2] or '', token or '0', last_granted(token), 0 } end
  return told
end
