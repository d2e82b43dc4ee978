-- Who holds a name, in the first row beside how many wait: 2, waiting, ticket, permits; then a row for each holder.
-- Once nobody has it, who had it last.
create procedure leasehold_v1_told(
    the_ns varbinary(64), the_name varbinary(200), now_us bigint, waiting bigint, the_ticket bigint, the_permits int
) sql security invoker
begin
    declare taken int;
    declare last_slot int;
    select count(*) into taken from leasehold_locks where ns = the_ns and name = the_name and expires > now_us;
    if taken = 0 then
        select slot into last_slot from leasehold_fence where ns = the_ns and name = the_name
            order by token desc limit 1;
    end if;
    select 2, waiting, the_ticket, coalesce(the_permits, 1);
    select l.holder, l.label, coalesce(f.token, 0), greatest(now_us - l.granted, 0), greatest(l.expires - now_us, 0), l.revoked
        from leasehold_locks l left join leasehold_fence f on f.ns = l.ns and f.name = l.name and f.slot = l.slot
        where l.ns = the_ns and l.name = the_name and (l.expires > now_us or l.slot = last_slot);
end
//
-- The first slot that nobody has and no fence stands in; null if there is none. Whoever calls has the name's lock.
create procedure leasehold_v1_free_slot(
    the_ns varbinary(64), the_name varbinary(200), the_permits int, taken int, now_us bigint, out the_slot int
) sql security invoker
begin
    declare fences, next_slot int;
    select f.slot into the_slot from leasehold_fence f
        where f.ns = the_ns and f.name = the_name and not exists(select 1 from leasehold_locks l
            where l.ns = the_ns and l.name = the_name and l.slot = f.slot and l.expires > now_us)
        order by f.slot limit 1 for update skip locked;
    if the_slot is null then
        -- What is not taken and was skipped is fenced.
        select count(*), coalesce(max(slot) + 1, 0) into fences, next_slot from leasehold_fence
            where ns = the_ns and name = the_name;
        if the_permits > greatest(fences, taken) then
            select greatest(coalesce(max(slot) + 1, 0), next_slot) into the_slot from leasehold_locks
                where ns = the_ns and name = the_name;
        end if;
    end if;
end
//
-- What a holder says at its end, which counts late, too: 1 done, 2 failed, 3 not started.
create procedure leasehold_v1_judge(
    the_ns varbinary(64), the_name varbinary(200), the_holder varbinary(32), verdict int,
    the_tick bigint
) sql security invoker
begin
    declare own_tick bigint;
    declare is_had tinyint default 0;
    -- To look for it by a DELETE would be to wait for whoever is completing another one in a transaction of its own.
    if verdict = 1 then
        select tick into own_tick from leasehold_ticks where ns = the_ns and name = the_name and tick = the_tick;
    elseif verdict = 2 then
        select tick into own_tick from leasehold_ticks
            where ns = the_ns and name = the_name and holder = the_holder and once = 1 limit 1;
    else
        update leasehold_ticks set holder = null, attempts = greatest(attempts - 1, 0)
            where ns = the_ns and name = the_name and holder = the_holder;
    end if;
    if own_tick is not null then
        -- A transaction that completes it may stay open, and what is behind this waits for it.
        select 1 into is_had from leasehold_ticks where ns = the_ns and name = the_name and tick = own_tick
            for update skip locked;
        if not is_had then
            signal sqlstate '40001' set message_text = 'leasehold: a transaction is completing the tick, ask again';
        end if;
        delete from leasehold_ticks
            where ns = the_ns and name = the_name and tick = own_tick and (verdict = 1 or holder = the_holder);
    end if;
end
//
-- Forgets a few names that were not used for long, more than one claim can bring.
create procedure leasehold_v1_forget(now_us bigint) sql security invoker
begin
    declare old_ns varbinary(64);
    declare old_name varbinary(200);
    declare old_token bigint;
    declare fences, unfenced, held int;
    declare rest int default 4;
    while rest > 0 do
        set rest = rest - 1, old_name = null;
        select ns, name, token into old_ns, old_name, old_token from leasehold_names
            where forget_at <= now_us order by forget_at limit 1 for update skip locked;
        if old_name is null then
            set rest = 0;
        else
            select count(*) into fences from leasehold_fence where ns = old_ns and name = old_name;
            select count(*) into unfenced from (select 1 from leasehold_fence
                where ns = old_ns and name = old_name for update skip locked) f;
            select count(*) into held from leasehold_locks
                where ns = old_ns and name = old_name and expires > now_us;
            if unfenced < fences or held > 0 then
                update leasehold_names set forget_at = now_us + 3600000000 where ns = old_ns and name = old_name;
            else
                -- Not even a clock that is set back may bring their tokens again.
                insert into leasehold_names(ns, name, permits, token, keep, forget_at)
                    values('', '', 1, old_token, 0, 9223372036854775807)
                    on duplicate key update token = greatest(token, old_token);
                delete from leasehold_locks where ns = old_ns and name = old_name;
                delete from leasehold_fence where ns = old_ns and name = old_name;
                delete from leasehold_ticks where ns = old_ns and name = old_name;
                delete from leasehold_waiters where ns = old_ns and name = old_name;
                delete from leasehold_names where ns = old_ns and name = old_name;
            end if;
        end if;
    end while;
end
//
-- Begins a transaction that has the row of a name, and what stands there. Under a route it has that, too: leads is 0 if it is
-- not as it must be (as_what as leasehold_v2_leads has it). The name's times are those that it is to have after this use of it.
create procedure leasehold_v2_own(
    the_ns varbinary(64), the_name varbinary(200), the_permits int, the_keep bigint, the_epoch bigint, as_what int,
    out leads tinyint, out is_fresh tinyint, out agreed int, out last_token bigint, out had_epoch bigint,
    out had_mark bigint, out had_mark_until bigint, out new_keep bigint, out new_forget_at bigint
) sql security invoker
own: begin
    declare now_us bigint;
    declare is_second tinyint default 0;
    set leads = 1, is_fresh = 0;
    attempt: loop
        set transaction isolation level read committed;
        start transaction;
        if the_epoch is not null then
            call leasehold_v2_leads(the_ns, the_epoch, as_what, 1, leads);
            if not leads then
                leave own;
            end if;
        end if;
        select permits, token, epoch, mark, mark_until, keep, forget_at
            into agreed, last_token, had_epoch, had_mark, had_mark_until, new_keep, new_forget_at
            from leasehold_names where ns = the_ns and name = the_name for update;
        set now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
        if agreed is not null then
            leave attempt;
        end if;
        if is_second then
            signal sqlstate '40001' set message_text = 'leasehold: forgotten meanwhile, ask again';
        end if;
        -- As large as what was forgotten, or what somebody has left of it.
        select coalesce(max(if(token < 70368744177664, token, 0)), 0) into last_token from leasehold_fence
            where ns = the_ns and name = the_name;
        select greatest(coalesce(max(token), 0), last_token) into last_token from leasehold_names
            where ns = '' and name = '';
        insert ignore into leasehold_names(ns, name, permits, token, keep, forget_at)
            values(the_ns, the_name, the_permits, last_token, 604800000000, now_us + 777600000000);
        if row_count() > 0 then
            set is_fresh = 1, agreed = the_permits, new_keep = 604800000000, new_forget_at = 0;
            leave attempt;
        end if;
        -- Somebody else was quicker, and to lock a row that one has looked at in common makes deadlocks.
        rollback;
        set is_second = 1;
    end loop;
    if as_what > 0 then
        -- The row may have been waited for, and the route have come into force.
        call leasehold_v2_leads(the_ns, the_epoch, as_what, 0, leads);
    end if;
    -- When it is forgotten is pushed out once in a while.
    set new_keep = greatest(new_keep, coalesce(the_keep, 0));
    if new_forget_at < now_us + new_keep + 86400000000 then
        set new_forget_at = now_us + new_keep + 172800000000;
    end if;
end
//
create procedure leasehold_v2_forget_key(the_ns varbinary(64), the_name varbinary(200)) sql security invoker
begin
    declare known, had int;
    select count(*) into known from leasehold_ticks where ns = the_ns and name = the_name;
    select count(*) into had from (select 1 from leasehold_ticks
        where ns = the_ns and name = the_name for update skip locked) t;
    if had < known then
        signal sqlstate '40001' set message_text = 'leasehold: a transaction is completing a tick, ask again';
    end if;
    update leasehold_names set mark = null, mark_keep = null, mark_until = null where ns = the_ns and name = the_name;
    delete from leasehold_ticks where ns = the_ns and name = the_name;
end
//
-- How a tick stands: 1 it may be claimed (is_open: once more, after so many attempts) · 2 it is running · 3 claimed before: the
-- newest, whether it is unfinished · 4 ahead of the clock by so much · 5 behind it by so much. Who claimed it is alive who has a
-- lease here (by_lease), or who is named.
create procedure leasehold_v2_standing(
    the_ns varbinary(64), the_name varbinary(200), the_tick bigint, is_retry tinyint, the_keep bigint, had_mark bigint,
    the_floor bigint, by_lease tinyint, the_alive varbinary(32), now_us bigint,
    out stands int, out amount bigint, out attempt int, out is_open tinyint
) sql security invoker
standing: begin
    declare open_holder varbinary(32);
    declare open_once, is_running, is_had tinyint default 0;
    set stands = 1, attempt = 0, is_open = 0;
    if the_tick <> 0 then
        if the_tick * 1000 > now_us + 300000000 then
            set stands = 4, amount = the_tick * 1000 - now_us;
            leave standing;
        elseif now_us - the_tick * 1000 > the_keep - 300000000 then
            set stands = 5, amount = now_us - the_tick * 1000;
            leave standing;
        elseif the_tick <= the_floor then
            set stands = 3, amount = the_floor;
            leave standing;
        end if;
    end if;
    select holder, attempts, once, 1 into open_holder, attempt, open_once, is_open from leasehold_ticks
        where ns = the_ns and name = the_name and tick = the_tick;
    if the_tick <= had_mark then
        if by_lease then
            select count(*) > 0 into is_running from leasehold_locks
                where ns = the_ns and name = the_name and holder = open_holder and expires > now_us;
        else
            set is_running = coalesce(open_holder = the_alive, 0);
        end if;
        if is_running then
            set stands = 2;
        elseif not is_open or (attempt > 0 and (open_once or not is_retry)) then
            set stands = 3, amount = had_mark;
        end if;
    end if;
    if stands = 1 and is_open then
        -- Whoever may claim it waits for no transaction that completes it: while one is open the tick is running.
        select 1 into is_had from leasehold_ticks where ns = the_ns and name = the_name and tick = the_tick
            for update skip locked;
        if not is_had then
            set stands = 2;
        end if;
    end if;
end
//
-- Writes down that a tick was claimed; which other one was given up for it.
create procedure leasehold_v2_claim(
    the_ns varbinary(64), the_name varbinary(200), the_holder varbinary(32), the_tick bigint, is_retry tinyint,
    the_keep bigint, had_mark bigint, attempt int, is_open tinyint, now_us bigint, out gave_up bigint
) sql security invoker
begin
    declare is_had tinyint default 0;
    -- A key is remembered for a while, a job's mark for as long as its name.
    update leasehold_names set
        mark = greatest(coalesce(had_mark, the_tick), the_tick),
        mark_keep = if(the_tick = 0, the_keep, null), mark_until = if(the_tick = 0, now_us + the_keep, null)
        where ns = the_ns and name = the_name;
    if is_open then
        update leasehold_ticks set holder = the_holder, attempts = attempt, once = not is_retry
            where ns = the_ns and name = the_name and tick = the_tick;
        if row_count() = 0 then
            -- A transaction has completed it since it was looked at.
            signal sqlstate '40001' set message_text = 'leasehold: completed meanwhile, ask again';
        end if;
    else
        insert into leasehold_ticks(ns, name, tick, holder, attempts, once)
            values(the_ns, the_name, the_tick, the_holder, attempt, not is_retry)
            on duplicate key update holder = the_holder, attempts = attempt, once = not is_retry;
        select tick into gave_up from leasehold_ticks where ns = the_ns and name = the_name
            order by tick desc limit 1 offset 32;
        if gave_up is not null then
            select 1 into is_had from leasehold_ticks where ns = the_ns and name = the_name and tick = gave_up
                for update skip locked;
            if not is_had then
                set gave_up = null; -- It is being completed.
            end if;
        end if;
        if gave_up is not null then
            delete from leasehold_ticks where ns = the_ns and name = the_name and tick = gave_up;
        end if;
    end if;
end
//
