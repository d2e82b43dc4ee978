    -- A level that was set for all by default would turn contention into errors. It can't be set once the transaction
    -- has begun to look, so that one is ended.
    if current_setting('transaction_isolation') <> 'read committed' then
        rollback;
        set transaction isolation level read committed;
    end if;
    if current_setting('lock_timeout') <> '0' then perform set_config('lock_timeout', '0', true); end if;
