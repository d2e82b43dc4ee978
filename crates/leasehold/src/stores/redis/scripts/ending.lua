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
