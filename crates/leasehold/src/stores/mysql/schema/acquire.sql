-- 1 granted: token, attempt, gave_up · 2 held: as leasehold_v1_told · 3 claimed before: the newest, whether it is unfinished
-- 4 ahead of the clock by so much · 5 behind it by so much · 6 others have so many permits · 7 the clock is wrong
-- 8 another route · 9 the holder has a lease of a later one · 10 no token is left in this epoch
create procedure leasehold_v2_acquire(
    the_ns varbinary(64), the_name varbinary(200), the_holder varbinary(32),
    the_label varchar(255) character set utf8mb4,
    the_ttl bigint,
    the_permits int,
    the_tick bigint,             -- 0 for a key; null: none
    is_retry tinyint,
    the_keep bigint,             -- for how long the mark has to be remembered; null: without a tick
    is_waiter tinyint,
    the_ticket bigint,           -- null: the first time
    built bigint,                -- what a right clock is past
    the_epoch bigint             -- of the route under which it is asked; null: under none
) sql security invoker
acquire: begin
    -- Only what stands in a SELECT of its own looks without locking: what an IF or a SET looks at is locked.
    declare now_us bigint default timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    declare taken, held, dead, ahead int default 0;
    declare last_token, had_epoch, had_mark, had_mark_until, new_keep, new_forget_at, my_tag, place, amount,
        new_token bigint;
    declare agreed, my_slot, my_revoked, the_slot int;
    declare leads, is_fresh, is_open tinyint;
    declare stands, attempt int default 0;
    declare gave_up bigint;
    declare idler varbinary(32);
    declare exit handler for sqlexception begin rollback; resignal; end;

    if the_epoch is not null then
        call leasehold_v2_leads(the_ns, the_epoch, 0, 0, leads);
        if not leads then
            select 8;
            leave acquire;
        end if;
    end if;

    -- Who is in the way stays so for a while: asked without a lock, and nothing is written but that a waiter still waits.
    if the_tick is null then
        select count(*), coalesce(sum(holder <=> the_holder), 0), coalesce(sum(tag < the_epoch), 0) into taken, held, dead
            from leasehold_locks where ns = the_ns and name = the_name and expires > now_us;
        if held = 0 and dead = 0 and (taken >= the_permits or the_ticket is not null) then
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

    call leasehold_v2_own(the_ns, the_name, the_permits, the_keep, the_epoch, 0,
        leads, is_fresh, agreed, last_token, had_epoch, had_mark, had_mark_until, new_keep, new_forget_at);
    if not leads then
        rollback;
        select 8;
        leave acquire;
    end if;

    set now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    if the_epoch is not null then
        call leasehold_v2_bury(the_ns, the_name, the_holder, the_epoch, now_us, my_tag);
        if my_tag > the_epoch then
            rollback;
            select 9;
            leave acquire;
        end if;
    end if;
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
    if the_epoch not between 0 and 131071
            or (the_epoch is not null and greatest(last_token + 1, (now_us div 1000 - 1577836800000) * 16) >= 70368744177664) then
        rollback;
        select 10;
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
        -- A key whose time is over was never there, unless somebody has it.
        if the_tick = 0 and had_mark_until <= now_us and taken = 0 then
            call leasehold_v2_forget_key(the_ns, the_name);
            set had_mark = null;
        end if;
        call leasehold_v2_standing(the_ns, the_name, the_tick, is_retry, the_keep, had_mark, null, 1, null, now_us,
            stands, amount, attempt, is_open);
        if stands > 1 then
            delete from leasehold_waiters where ns = the_ns and name = the_name and holder = the_holder;
            select count(*) into ahead from leasehold_waiters
                where ns = the_ns and name = the_name and seen between now_us - 999999 and now_us + 1000000;
            commit;
            if stands = 2 then
                call leasehold_v1_told(the_ns, the_name, now_us, ahead, null, agreed);
            else
                select stands, amount, is_open;
            end if;
            leave acquire;
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
        -- The epoch of the route stands above the counter. What is granted under none goes on where those under one were.
        set last_token = greatest(last_token + 1, (now_us div 1000 - 1577836800000) * 16);
        set had_epoch = greatest(coalesce(had_epoch, the_epoch), coalesce(the_epoch, had_epoch));
        set new_token = least(coalesce(the_epoch, had_epoch, 0), 131071) << 46 | last_token;
        insert into leasehold_fence(ns, name, slot, token) values(the_ns, the_name, the_slot, new_token)
            on duplicate key update token = new_token;
        insert into leasehold_locks(ns, name, slot, holder, label, granted, expires, revoked, tag)
            values(the_ns, the_name, the_slot, the_holder, the_label, now_us, now_us + the_ttl, 0, the_epoch)
            on duplicate key update holder = the_holder, label = the_label, granted = now_us,
                expires = now_us + the_ttl, revoked = 0, tag = the_epoch;
        if the_tick is not null then
            set attempt = attempt + 1;
            call leasehold_v2_claim(the_ns, the_name, the_holder, the_tick, is_retry, the_keep, had_mark, attempt, is_open, now_us,
                gave_up);
        end if;
        update leasehold_names set permits = the_permits, token = last_token, epoch = had_epoch, keep = new_keep,
            forget_at = new_forget_at
            where ns = the_ns and name = the_name;
        if is_waiter then
            delete from leasehold_waiters where ns = the_ns and name = the_name and holder = the_holder;
        end if;
        if is_fresh then
            call leasehold_v1_forget(now_us);
        end if;
        commit;
        select 1, new_token, attempt, gave_up;
        leave acquire;
    end if;

    if is_waiter then
        insert into leasehold_waiters(ns, name, holder, ticket, seen)
            values(the_ns, the_name, the_holder, place, now_us)
            on duplicate key update seen = now_us;
        -- Who has not asked for long is taken out, one at a time.
        select holder into idler from leasehold_waiters
            where ns = the_ns and name = the_name and seen < now_us - 60000000 limit 1;
        if idler is not null then
            delete from leasehold_waiters
                where ns = the_ns and name = the_name and holder = idler and seen < now_us - 60000000;
        end if;
    end if;
    commit;
    call leasehold_v1_told(the_ns, the_name, now_us, ahead, place, agreed);
end
//
