-- Asks for a lease. Outcomes: 1 granted · 2 held · 3 claimed before (o_value: the newest; o_attempt: unfinished) ·
-- 4 ahead of the clock by o_value · 5 behind it by o_value · 6 others have o_permits · 7 the clock is wrong
create or replace procedure @.leasehold_v1_acquire(
    p_ns text, p_name text, p_holder text, p_label text, p_ttl bigint, p_permits bigint,
    p_tick bigint, p_retry boolean, p_keep bigint,
    p_queue boolean, p_ticket bigint, p_client text, p_sent bigint,
    inout o_outcome integer, inout o_token bigint, inout o_attempt integer, inout o_value bigint,
    inout o_ahead bigint, inout o_ticket bigint, inout o_permits bigint,
    inout o_holders text[], inout o_labels text[], inout o_tokens bigint[],
    inout o_ages bigint[], inout o_rests bigint[], inout o_revoked boolean[])
language plpgsql as $$
declare
    at bigint;                         -- what the clock shows
    one @.leasehold_locks%rowtype;     -- the first slot
    fenced boolean;                    -- it may be
    taken bigint; held bigint; last bigint;
    mine bigint; refused boolean;      -- the slot that is the claimant's, and whether that was revoked
    open @.leasehold_ticks%rowtype;
    known boolean;
    place bigint;
    free bigint;
begin
    --@begin
    o_outcome := 2; o_ahead := 0; o_permits := 1;

    -- Most claims are for a plain lock that is free and has nobody in its way.
    if p_tick is null and p_permits = 1 then
        at := @.leasehold_v1_now();
        select * into one from @.leasehold_locks l
            where l.ns = p_ns and l.name = p_name and l.slot = 0 and l.expires <= at
            for update skip locked;
        if found and one.permits = 1 and not @.leasehold_v1_clock_is_wrong(at, one.token)
            and not exists (select from @.leasehold_waiters w where w.ns = p_ns and w.name = p_name)
            and not exists (select from @.leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot > 0)
        then
            update @.leasehold_locks l
                set holder = p_holder, label = p_label, token = @.leasehold_v1_next_token(one.token, at),
                    granted = at, expires = at + p_ttl, revoked = false
                where l.ns = p_ns and l.name = p_name and l.slot = 0
                returning l.token into o_token;
            if one.forget_at < at + one.kept + 86400000000 then
                perform @.leasehold_v1_remember(p_ns, p_name, one.kept, one.forget_at, 0, at);
            end if;
            o_attempt := 0;
            o_outcome := 1;
            return;
        end if;
    end if;

    -- First a look, which is enough for whoever gets nothing and leaves nothing behind. Then with the name's first slot
    -- locked, which keeps everybody else from deciding at the same time.
    <<decide>>
    for locked in 0..1 loop
        if locked = 0 then
            select * into one from @.leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0;
            at := @.leasehold_v1_now();
            -- It looks free.
            continue when not found or (one.expires <= at and (p_tick is null or one.mark is null or p_tick > one.mark));
        else
            loop
                -- A fence lets a lock of the weaker kind pass.
                select * into one from @.leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0
                    for update skip locked;
                fenced := not found;
                exit when found;
                select * into one from @.leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0
                    for no key update;
                exit when found;
                insert into @.leasehold_locks(ns, name, slot) values (p_ns, p_name, 0) on conflict do nothing;
            end loop;
            at := @.leasehold_v1_now();
        end if;

        select count(*) filter (where l.expires > at), count(l.holder) filter (where l.expires > at), max(l.token),
                max(l.slot) filter (where l.expires > at and l.holder = p_holder),
                bool_or(l.revoked) filter (where l.expires > at and l.holder = p_holder)
            into taken, held, last, mine, refused
            from @.leasehold_locks l where l.ns = p_ns and l.name = p_name;
        if locked = 1 and @.leasehold_v1_clock_is_wrong(at, last) then
            o_outcome := 7;
            exit decide;
        end if;

        -- The same holder, alive: the same grant, its end moved and never back.
        if mine is not null and not refused then
            continue when locked = 0;
            update @.leasehold_locks l set expires = greatest(l.expires, at + p_ttl)
                where l.ns = p_ns and l.name = p_name and l.slot = mine returning l.token into o_token;
            delete from @.leasehold_waiters w where w.ns = p_ns and w.name = p_name and w.holder = p_holder;
            select t.attempts into o_attempt from @.leasehold_ticks t
                where t.ns = p_ns and t.name = p_name and t.holder = p_holder;
            o_attempt := coalesce(o_attempt, 0);
            o_outcome := 1;
            return;
        end if;

        o_permits := one.permits;
        if held > 0 and one.permits <> p_permits then
            continue when locked = 0; -- Seen at two moments, both may be right.
            o_outcome := 6;
            return;
        end if;

        if p_tick is not null then
            if p_tick <> 0 and p_tick * 1000 > at + 300000000 then
                o_outcome := 4; o_value := p_tick * 1000 - at;
                exit decide;
            elsif p_tick <> 0 and at - p_tick * 1000 > p_keep - 300000000 then
                o_outcome := 5; o_value := at - p_tick * 1000;
                exit decide;
            end if;
            -- A key whose time is over was never there, unless somebody has it.
            if p_tick = 0 and one.key_ends <= at and taken = 0 then
                continue when locked = 0;
                update @.leasehold_locks l set mark = null, keep = null, key_ends = null
                    where l.ns = p_ns and l.name = p_name and l.slot = 0;
                delete from @.leasehold_ticks t where t.ns = p_ns and t.name = p_name;
                one.mark := null;
            end if;
            select * into open from @.leasehold_ticks t where t.ns = p_ns and t.name = p_name and t.tick = p_tick;
            known := found;
            if p_tick <= one.mark then
                perform 1 from @.leasehold_locks l
                    where l.ns = p_ns and l.name = p_name and l.expires > at and l.holder = open.holder;
                if found then
                    o_ahead := @.leasehold_v1_ahead(p_ns, p_name, p_holder, null, at);
                    exit decide;
                elsif not known or not (open.attempts = 0 or (p_retry and not open.once)) then
                    continue when locked = 0 and known; -- It may have been given back since.
                    o_outcome := 3; o_value := one.mark; o_attempt := known::integer;
                    exit decide;
                end if;
            end if;
        end if;

        -- Who is seen to wait for a lock that is held only says that it is still there. It keeps nobody from anything.
        if locked = 0 and taken >= p_permits and p_queue and p_ticket is not null then
            update @.leasehold_waiters w set seen = at, sent = p_sent, ttl = p_ttl, client = p_client
                where w.ns = p_ns and w.name = p_name and w.holder = p_holder and w.seen > at - 1000000
                returning w.ticket into o_ticket;
            continue when not found;
            perform set_config('synchronous_commit', 'off', true);
            o_ahead := @.leasehold_v1_ahead(p_ns, p_name, p_holder, o_ticket, at);
            exit decide;
        end if;
        continue when locked = 0 and (p_queue or taken < p_permits);

        if p_queue then
            select w.ticket into place from @.leasehold_waiters w
                where w.ns = p_ns and w.name = p_name and w.holder = p_holder;
            place := coalesce(place, p_ticket);
            if place is null then
                -- From the clock, so that a queue whose entries were all taken out doesn't put newcomers first.
                select greatest(at, max(w.ticket) + 1) into place from @.leasehold_waiters w
                    where w.ns = p_ns and w.name = p_name;
            end if;
        end if;
        o_ahead := @.leasehold_v1_ahead(p_ns, p_name, p_holder, place, at);

        -- One that was revoked has its permit still, and is to have no other.
        if mine is null and p_permits - taken > o_ahead then
            free := @.leasehold_v1_free_slot(p_ns, p_name, p_permits, at, one.expires <= at and not fenced);
            if free is not null then
                o_token := @.leasehold_v1_next_token(last, at);
                if free > 0 then
                    insert into @.leasehold_locks(ns, name, slot) values (p_ns, p_name, free) on conflict do nothing;
                end if;
                update @.leasehold_locks l
                    set holder = p_holder, label = p_label, token = o_token, granted = at, expires = at + p_ttl,
                        revoked = false
                    where l.ns = p_ns and l.name = p_name and l.slot = free;
                delete from @.leasehold_waiters w where w.ns = p_ns and w.name = p_name and w.holder = p_holder;
                if one.permits <> p_permits then
                    update @.leasehold_locks l set permits = p_permits
                        where l.ns = p_ns and l.name = p_name and l.slot = 0;
                    -- Slots that are none any more, unless a fence stands in one.
                    delete from @.leasehold_locks l where l.ctid = any(array(
                        select o.ctid from @.leasehold_locks o
                        where o.ns = p_ns and o.name = p_name and o.slot >= p_permits and o.expires <= at
                        for update skip locked));
                end if;
                o_attempt := 0;
                if p_tick is not null then
                    -- A claim with a tick has to survive a power failure: the tick would run once more.
                    if current_setting('synchronous_commit') = 'off' then
                        perform set_config('synchronous_commit', 'on', true);
                    end if;
                    o_attempt := case when known then open.attempts + 1 else 1 end;
                    o_value := @.leasehold_v1_claim_tick(
                        p_ns, p_name, p_holder, p_tick, p_retry, p_keep, o_attempt, known, at);
                end if;
                perform @.leasehold_v1_remember(p_ns, p_name, one.kept, one.forget_at, p_keep, at);
                o_outcome := 1;
                return;
            end if;
        end if;

        if place is not null then
            delete from @.leasehold_waiters w
                where w.ns = p_ns and w.name = p_name and (w.seen <= at - 1000000 or w.seen > at + 1000000);
            insert into @.leasehold_waiters(ns, name, holder, label, client, ticket, seen, sent, ttl)
                values (p_ns, p_name, p_holder, p_label, p_client, place, at, p_sent, p_ttl)
                on conflict(ns, name, holder)
                do update set client = p_client, seen = at, sent = p_sent, ttl = p_ttl;
            perform @.leasehold_v1_remember(p_ns, p_name, one.kept, one.forget_at, 0, at);
            o_ticket := place;
        end if;
        exit decide;
    end loop;

    -- Nothing was promised, so nothing is lost with it.
    if p_queue and o_ticket is null then
        delete from @.leasehold_waiters w where w.ns = p_ns and w.name = p_name and w.holder = p_holder;
    end if;
    perform set_config('synchronous_commit', 'off', true);
    if o_outcome = 2 then
        select array_agg(l.holder), array_agg(l.label), array_agg(l.token), array_agg(at - l.granted),
                array_agg(l.expires - at), array_agg(l.revoked)
            into o_holders, o_labels, o_tokens, o_ages, o_rests, o_revoked
            from @.leasehold_locks l
            where l.ns = p_ns and l.name = p_name and (l.slot = 0 or l.expires > at);
    end if;
end
$$;
