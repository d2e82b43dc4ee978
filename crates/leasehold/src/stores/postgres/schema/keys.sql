-- A table that somebody has copied back without its key: a name could be there twice, and two be granted it. Where one is by
-- now, this fails and says which.
do $$
declare
    one record;
begin
    for one in values
        ('leasehold_schema', 'one'), ('leasehold_locks', 'ns, name, slot'), ('leasehold_waiters', 'ns, name, holder'),
        ('leasehold_ticks', 'ns, name, tick'), ('leasehold_routes', 'ns'), ('leasehold_modes', 'ns'),
        ('leasehold_notes', 'ns, sort, name, id')
    loop
        if not exists (select from pg_index where indrelid = ('@.' || one.column1)::regclass and indisprimary) then
            execute format('alter table %s add primary key (%s)', '@.' || one.column1, one.column2);
        end if;
    end loop;
end $$;
