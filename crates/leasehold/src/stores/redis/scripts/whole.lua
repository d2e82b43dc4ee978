-- From now on a member is full for every name: in this `life`, with this `floor` at least. Since when is said anew after it
-- was not.
local function whole(life, floor)
  local own = redis.call('HMGET', K[1], 'founded', 'floor')
  local clock = redis.call('TIME')
  if own[1] ~= life then redis.call('HSET', K[1], 'whole', clock[1] .. '.' .. clock[2]) end
  floor = math.max(tonumber(own[2] or '0'), tonumber(floor))
  redis.call('HSET', K[1], 'life', life, 'founded', life, 'floor', string.format('%.0f', floor))
end
