-- What the server says of itself: which data set it serves is in there.
local server, replication = redis.pcall('INFO', 'server'), redis.pcall('INFO', 'replication')
for _, said in ipairs({ server, replication }) do
  if type(said) == 'table' then
    return redis.error_reply('NOPERM a script may not ask for INFO, which says what data set this is: ' .. said.err)
  end
end

-- Whether a route leads to what is served here: whole lines, of the run id and of the replication id.
local function is_served(run, replid)
  return string.find(server, run, 1, true) and string.find(replication, replid, 1, true)
    and string.find(replication, 'role:master\r\n', 1, true)
end
