    if current_setting('transaction_isolation') <> 'read committed' or current_setting('lock_timeout') <> '3s'
        or pg_is_in_recovery()
    then
        if pg_is_in_recovery() then
            -- What is only looked at would be answered as it once was.
            raise exception 'a standby takes no writes' using errcode = 'read_only_sql_transaction';
        end if;
        -- A level that was set for all by default would turn contention into errors. It can't be set once the
        -- transaction has begun to look, so that one is ended.
        if current_setting('transaction_isolation') <> 'read committed' then
            rollback;
            set transaction isolation level read committed;
        end if;
        perform set_config('lock_timeout', '3s', true);
    end if;
