-- 1 granted: token, attempt, gave_up · 2 held: as leasehold_v1_told · 3 claimed before: the newest, whether it is unfinished
-- 4 ahead of the clock by so much · 5 behind it by so much · 6 others have so many permits · 7 the clock is wrong
create procedure leasehold_v1_acquire(
    the_ns varbinary(64), the_name varbinary(200), the_holder varbinary(32),
    the_label varchar(255) character set utf8mb4,
    the_ttl bigint,
    the_permits int,
    the_tick bigint,             -- 0 for a key; null: none
    is_retry tinyint,
    the_keep bigint,             -- for how long the mark has to be remembered; null: without a tick
    is_waiter tinyint,
    the_ticket bigint,           -- null: the first time
    built bigint                 -- what a right clock is past
) sql security invoker
acquire: begin
    -- Only what stands in a SELECT of its own looks without locking: what an IF or a SET looks at is locked.
    declare now_us bigint default timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    declare taken, held, ahead, is_fresh, is_running int default 0;
    declare last_token, had_mark, had_mark_until, had_keep, had_forget_at, place bigint;
    declare agreed, my_slot, my_revoked, the_slot int;
    declare open_holder varbinary(32);
    declare open_once, is_open tinyint default 0;
    declare attempt int default 0;
    declare gave_up bigint;
    declare exit handler for sqlexception begin rollback; resignal; end;

    -- Who is in the way stays so for a while: asked without a lock, and nothing is written but that a waiter still waits.
    if the_tick is null then
        select count(*), coalesce(sum(holder <=> the_holder), 0) into taken, held from leasehold_locks
            where ns = the_ns and name = the_name and expires > now_us;
        if held = 0 and (taken >= the_permits or the_ticket is not null) then
            select permits into agreed from leasehold_names where ns = the_ns and name = the_name;
            select count(*) into ahead from leasehold_waiters
                where ns = the_ns and name = the_name and seen between now_us - 999999 and now_us + 1000000 and holder <> the_holder
                    and (the_ticket is null or ticket < the_ticket or (ticket = the_ticket and holder < the_holder));
            if (taken = 0 or agreed = the_permits) and the_permits - taken <= ahead then
                if not is_waiter then
                    call leasehold_v1_told(the_ns, the_name, now_us, ahead, null, agreed);
                    leave acquire;
                end if;
                if the_ticket is not null then
                    update leasehold_waiters set seen = now_us
                        where ns = the_ns and name = the_name and holder = the_holder and seen between now_us - 999999 and now_us + 1000000;
                    if row_count() > 0 then
                        call leasehold_v1_told(the_ns, the_name, now_us, ahead, the_ticket, agreed);
                        leave acquire;
                    end if;
                end if;
            end if;
            set agreed = null;
        end if;
    end if;

    set transaction isolation level read committed;
    start transaction;
    select permits, token, mark, mark_until, keep, forget_at
        into agreed, last_token, had_mark, had_mark_until, had_keep, had_forget_at
        from leasehold_names where ns = the_ns and name = the_name for update;
    if agreed is null then
        -- As large as what was forgotten, or what somebody has left of it.
        select coalesce(max(token), 0) into last_token from leasehold_fence where ns = the_ns and name = the_name;
        select greatest(coalesce(max(token), 0), last_token) into last_token from leasehold_names
            where ns = '' and name = '';
        insert ignore into leasehold_names(ns, name, permits, token, keep, forget_at)
            values(the_ns, the_name, the_permits, last_token, 604800000000, now_us + 777600000000);
        set is_fresh = row_count() > 0;
        if is_fresh then
            set agreed = the_permits, had_keep = 604800000000, had_forget_at = 0;
        else
            -- Somebody else was quicker, and to lock a row that one has looked at in common makes deadlocks.
            rollback;
            set transaction isolation level read committed;
            start transaction;
            select permits, token, mark, mark_until, keep, forget_at
                into agreed, last_token, had_mark, had_mark_until, had_keep, had_forget_at
                from leasehold_names where ns = the_ns and name = the_name for update;
            if agreed is null then
                signal sqlstate '40001' set message_text = 'leasehold: forgotten meanwhile, ask again';
            end if;
        end if;
    end if;

    set now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    -- Those that are over are locked too: a renewal that is late must not bring one back under our hands.
    select count(if(expires > now_us, 1, null)), count(if(expires > now_us, holder, null)),
            max(if(expires > now_us and holder = the_holder, slot, null)),
            max(if(expires > now_us and holder = the_holder, revoked, null))
        into taken, held, my_slot, my_revoked
        from leasehold_locks where ns = the_ns and name = the_name for update;
    if now_us < built or last_token > (now_us div 1000 - 1577836800000 + 3600000) * 16 then
        rollback;
        select 7;
        leave acquire;
    end if;

    -- The same holder, alive: the same grant, its end moved and never back.
    if my_slot is not null and not my_revoked then
        update leasehold_locks set expires = greatest(expires, now_us + the_ttl)
            where ns = the_ns and name = the_name and slot = my_slot;
        delete from leasehold_waiters where ns = the_ns and name = the_name and holder = the_holder;
        if the_tick is not null then
            select coalesce(max(attempts), 0) into attempt from leasehold_ticks
                where ns = the_ns and name = the_name and holder = the_holder;
        end if;
        select max(token) into last_token from leasehold_fence where ns = the_ns and name = the_name and slot = my_slot;
        commit;
        select 1, coalesce(last_token, 0), attempt, gave_up;
        leave acquire;
    end if;

    if held > 0 and agreed <> the_permits then
        rollback;
        select 6, agreed;
        leave acquire;
    end if;

    if the_tick is not null then
        if the_tick <> 0 and (the_tick * 1000 > now_us + 300000000 or now_us - the_tick * 1000 > the_keep - 300000000) then
            delete from leasehold_waiters where ns = the_ns and name = the_name and holder = the_holder;
            commit;
            if the_tick * 1000 > now_us then
                select 4, the_tick * 1000 - now_us;
            else
                select 5, now_us - the_tick * 1000;
            end if;
            leave acquire;
        end if;
        -- A key whose time is over was never there, unless somebody has it.
        if the_tick = 0 and had_mark_until <= now_us and taken = 0 then
            update leasehold_names set mark = null, mark_keep = null, mark_until = null
                where ns = the_ns and name = the_name;
            delete from leasehold_ticks where ns = the_ns and name = the_name;
            set had_mark = null;
        end if;
        select holder, attempts, once, 1 into open_holder, attempt, open_once, is_open from leasehold_ticks
            where ns = the_ns and name = the_name and tick = the_tick;
        if the_tick <= had_mark then
            select count(*) into is_running from leasehold_locks
                where ns = the_ns and name = the_name and holder = open_holder and expires > now_us;
            if is_running then
                delete from leasehold_waiters where ns = the_ns and name = the_name and holder = the_holder;
                select count(*) into ahead from leasehold_waiters
                    where ns = the_ns and name = the_name and seen between now_us - 999999 and now_us + 1000000;
                commit;
                call leasehold_v1_told(the_ns, the_name, now_us, ahead, null, agreed);
                leave acquire;
            end if;
            if not is_open or (attempt > 0 and (open_once or not is_retry)) then
                delete from leasehold_waiters where ns = the_ns and name = the_name and holder = the_holder;
                commit;
                select 3, had_mark, is_open;
                leave acquire;
            end if;
        end if;
    end if;

    -- Its place: the one that it has, the one that it had, or one behind all others.
    if is_waiter then
        select ticket into place from leasehold_waiters
            where ns = the_ns and name = the_name and holder = the_holder;
        if place is null then
            set place = the_ticket;
        end if;
        if place is null then
            select greatest(coalesce(max(ticket) + 1, 0), now_us) into place from leasehold_waiters
                where ns = the_ns and name = the_name;
        end if;
    end if;
    select count(*) into ahead from leasehold_waiters
        where ns = the_ns and name = the_name and seen between now_us - 999999 and now_us + 1000000 and holder <> the_holder
            and (place is null or ticket < place or (ticket = place and holder < the_holder));

    -- One that was revoked has its permit until it ends, and gets no other.
    if my_slot is null and the_permits - taken > ahead then
        if taken = 0 then
            select slot into the_slot from leasehold_fence
                where ns = the_ns and name = the_name and slot = 0 for update skip locked;
        end if;
        if the_slot is null then
            call leasehold_v1_free_slot(the_ns, the_name, the_permits, taken, now_us, the_slot);
        end if;
    end if;
    if the_slot is not null then
        set last_token = greatest(last_token + 1, (now_us div 1000 - 1577836800000) * 16);
        insert into leasehold_fence(ns, name, slot, token) values(the_ns, the_name, the_slot, last_token)
            on duplicate key update token = last_token;
        insert into leasehold_locks(ns, name, slot, holder, label, granted, expires, revoked)
            values(the_ns, the_name, the_slot, the_holder, the_label, now_us, now_us + the_ttl, 0)
            on duplicate key update holder = the_holder, label = the_label, granted = now_us,
                expires = now_us + the_ttl, revoked = 0;
        if the_tick is not null then
            -- A key is remembered for a while, a job's mark for as long as its name.
            update leasehold_names set
                mark = greatest(coalesce(had_mark, the_tick), the_tick),
                mark_keep = if(the_tick = 0, the_keep, null), mark_until = if(the_tick = 0, now_us + the_keep, null)
                where ns = the_ns and name = the_name;
            set attempt = attempt + 1;
            insert into leasehold_ticks(ns, name, tick, holder, attempts, once)
                values(the_ns, the_name, the_tick, the_holder, attempt, not is_retry)
                on duplicate key update holder = the_holder, attempts = attempt, once = not is_retry;
            if not is_open then
                select tick into gave_up from leasehold_ticks where ns = the_ns and name = the_name
                    order by tick desc limit 1 offset 32;
                if gave_up is not null then
                    delete from leasehold_ticks where ns = the_ns and name = the_name and tick = gave_up;
                end if;
            end if;
        end if;
        -- When it is forgotten is pushed out once in a while.
        set had_keep = greatest(had_keep, coalesce(the_keep, 0));
        if had_forget_at < now_us + had_keep + 86400000000 then
            set had_forget_at = now_us + had_keep + 172800000000;
        end if;
        update leasehold_names set permits = the_permits, token = last_token, keep = had_keep, forget_at = had_forget_at
            where ns = the_ns and name = the_name;
        if is_waiter then
            delete from leasehold_waiters where ns = the_ns and name = the_name and holder = the_holder;
        end if;
        if is_fresh then
            call leasehold_v1_forget(now_us);
        end if;
        commit;
        select 1, last_token, attempt, gave_up;
        leave acquire;
    end if;

    if is_waiter then
        insert into leasehold_waiters(ns, name, holder, ticket, seen)
            values(the_ns, the_name, the_holder, place, now_us)
            on duplicate key update seen = now_us;
        -- Who has not asked for long is taken out, one at a time.
        set open_holder = null;
        select holder into open_holder from leasehold_waiters
            where ns = the_ns and name = the_name and seen < now_us - 60000000 limit 1;
        if open_holder is not null then
            delete from leasehold_waiters
                where ns = the_ns and name = the_name and holder = open_holder and seen < now_us - 60000000;
        end if;
    end if;
    commit;
    call leasehold_v1_told(the_ns, the_name, now_us, ahead, place, agreed);
end
//
