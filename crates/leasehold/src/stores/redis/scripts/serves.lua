-- KEYS the largest epoch seen     {run id, replication id, role, that epoch}
--@incarnation
return {
  string.match(server, 'run_id:(%w+)') or '', string.match(replication, 'master_replid:(%w+)') or '',
  string.match(replication, 'role:(%w+)') or '', call('GET', K[1]) or '0',
}
