-- What keeps a token from being made: a clock before this program was built, or an hour behind what it was at the last
-- one. Once that counter is lost, tokens would begin below it. In a quorum others may have set it.
local function clock_fault(last)
  local ms = now - 1577836800000
  local was_later = (tonumber(last) or 0) > (ms + 3600000) * 16 and not call('HGET', K[2], 's')
  if ms < 215654400000 or was_later then
    return redis.error_reply('CLOCK it is ' .. clock[1] .. ' s since 1970 there, and was later')
  end
end

-- When a token was given out (ms), if the clock was not behind an earlier one.
local function granted_at(token) return math.floor((tonumber(token) or 0) / 16) + 1577836800000 end

-- The hash outlives its last use: by a week, or by as long as a tick asks for. Pushed out once in a while.
local function keep(day, ms)
  local today = string.sub(clock[1], 1, 5)
  if day == today and ms == 0 then return end
  local kept = call('HGET', K[2], 'k')
  ms = math.max(ms, tonumber(kept) or DAYS_7)
  if day ~= today or text(ms) ~= kept then
    call('HSET', K[2], 'd', today, 'k', text(ms), 'v', 1)
    call('PEXPIRE', K[2], text(ms + 172800000))
  end
end
