-- ARGV life holder token [tick retry('1'|'0') keep]
-- {1, token, attempt, gave up|''} · {0} the holder has no lease here · {2} not all is known of the name · {3…5} as acquire
--@clock
--@life
local holder, tick, retry, ms = A[2], A[4], A[5], A[6]
local value = call('GET', K[1])
if h[2] ~= holder or (value ~= holder and value ~= '!' .. holder) then return { 0 } end
if not full then return { 2 } end

local attempt, gave_up = 0, ''
if tick then
  if not current then
    close()
    call('HSET', K[2], 'e', life)
  end
  local who, count = string.match(call('HGET', K[2], 'o:' .. tick) or '', '^(%S+) (%d+)')
  if who == holder then
    attempt = tonumber(count)
  else
    if tick ~= '0' and floor > tonumber(h[3] or '0') then call('HSET', K[2], 'm', text(floor)) end
    local alive, idle, open, mark, answer = {}, true
--@due
    if answer then return answer end
--@begun
  end
  keep(h[7], tonumber(ms))
end

-- A counter that is ahead was adopted since the claim, from a holder before: its token is another's.
local free = counter > lease and counter + 1 or counter
local token = math.max(free, tonumber(A[3]), least)
if token > lease then count_to('t', token) end
-- A token that is ahead of this clock doesn't say when it was given out.
if granted_at(token) > now and not string.find(call('HGET', K[2], 'i') or '', text(token) .. ' ', 1, true) then
  call('HSET', K[2], 'i', text(token) .. ' ' .. text(now))
end
if h[6] then call('HDEL', K[2], 'c') end
return { 1, text(token), attempt, gave_up }
