-- Asks for a lease, under a route if there is an epoch. Outcomes: 1 granted · 2 held · 3 claimed before (o_value: the
-- newest; o_attempt: unfinished) · 4 ahead of the clock by o_value · 5 behind it by o_value · 6 others have o_permits ·
-- 7 the clock is wrong · 8 another route · 9 the holder has a lease of a later one · 10 no token is left in this epoch
-- o_asked, here and in each that follows, is answered as it was given, so that whoever asked knows that the answer is to
-- that question: a pooler may hand out a session in which the answers to somebody who is gone are still to come.
create or replace procedure @.leasehold_v4_acquire(
    p_ns text, p_name text, p_holder text, p_label text, p_ttl bigint, p_permits bigint,
    p_tick bigint, p_retry boolean, p_keep bigint,
    p_queue boolean, p_ticket bigint, p_client text, p_sent bigint, p_epoch bigint,
    inout o_outcome integer, inout o_token bigint, inout o_attempt integer, inout o_value bigint,
    inout o_ahead bigint, inout o_ticket bigint, inout o_permits bigint,
    inout o_holders text[], inout o_labels text[], inout o_tokens bigint[],
    inout o_ages bigint[], inout o_rests bigint[], inout o_revoked boolean[], inout o_asked bigint)
language plpgsql as $$
declare
    at bigint;                         -- what the clock shows
    one @.leasehold_locks%rowtype;     -- the first slot
    easy boolean;                      -- there is nothing else to look at
    fenced boolean;                    -- it may be
    taken bigint; held bigint; last bigint;
    mine bigint; refused boolean;      -- the slot that is the claimant's, and whether that was revoked
    alive text[];                      -- who holds it
    own_tag bigint; dead boolean;      -- the claimant's; whether one is of an earlier route
    tick record;
    place bigint;
    free bigint;
begin
    --@begin
    o_outcome := 2; o_ahead := 0; o_permits := 1;

    -- Most claims are for a plain lock that is free and has nobody in its way.
    if p_tick is null and p_permits = 1 then
        at := @.leasehold_v2_now();
        select * into one from @.leasehold_locks l
            where l.ns = p_ns and l.name = p_name and l.slot = 0 and l.expires <= at
            for update skip locked;
        easy := found and one.permits = 1 and (
            p_epoch is null
            or (@.leasehold_v2_leads_here(p_ns, p_epoch, false)
                and not @.leasehold_v2_has_no_token(one.token, p_epoch, at)));
        if easy and not @.leasehold_v2_clock_is_wrong(at, @.leasehold_v2_counter(one.token, p_epoch))
            and not exists (select from @.leasehold_waiters w where w.ns = p_ns and w.name = p_name)
            and not exists (select from @.leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot > 0)
        then
            update @.leasehold_locks l
                set holder = p_holder, label = p_label, token = @.leasehold_v2_next_token(one.token, p_epoch, at),
                    granted = at, expires = at + p_ttl, revoked = false, tag = p_epoch
                where l.ns = p_ns and l.name = p_name and l.slot = 0
                returning l.token into o_token;
            if one.forget_at < at + one.kept + 86400000000 then
                perform @.leasehold_v2_remember(p_ns, p_name, one.kept, one.forget_at, 0, at);
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
        if locked = 1 then fenced := @.leasehold_v2_own(p_ns, p_name); end if;
        if p_epoch is not null then
            if not @.leasehold_v2_leads_here(p_ns, p_epoch, false) then
                o_outcome := 8;
                return;
            end if;
            if locked = 1 then perform @.leasehold_v2_bury(p_ns, p_name, p_epoch); end if;
        end if;
        select * into one from @.leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0;
        at := @.leasehold_v2_now();
        -- It looks free.
        continue when locked = 0
            and (not found or (one.expires <= at and (p_tick is null or one.mark is null or p_tick > one.mark)));

        select count(*) filter (where l.expires > at), count(l.holder) filter (where l.expires > at), max(l.token),
                max(l.slot) filter (where l.expires > at and l.holder = p_holder),
                bool_or(l.revoked) filter (where l.expires > at and l.holder = p_holder),
                array_agg(l.holder) filter (where l.expires > at),
                max(l.tag) filter (where l.expires > at and l.holder = p_holder),
                bool_or(l.tag < p_epoch) filter (where l.expires > at)
            into taken, held, last, mine, refused, alive, own_tag, dead
            from @.leasehold_locks l where l.ns = p_ns and l.name = p_name;
        if own_tag > p_epoch then
            o_outcome := 9;
            return;
        end if;
        continue when locked = 0 and dead;
        if locked = 1 and @.leasehold_v2_clock_is_wrong(at, @.leasehold_v2_counter(last, p_epoch)) then
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
            -- Nobody has it, and its time is over.
            if p_tick = 0 and one.key_ends <= at and taken = 0 then
                continue when locked = 0;
                -- By a transaction that goes on.
                exit decide when @.leasehold_v3_being_completed(p_ns, p_name, 0);
                perform @.leasehold_v2_forget_key(p_ns, p_name);
                one.mark := null;
            end if;
            select * into tick
                from @.leasehold_v2_standing(p_ns, p_name, p_tick, p_retry, p_keep, one.mark, alive, at);
            if locked = 1 and tick.o_standing = 1 and tick.o_known
                and @.leasehold_v3_being_completed(p_ns, p_name, p_tick)
            then
                tick.o_standing := 2; -- And waited for by nobody.
            end if;
            if tick.o_standing = 2 then
                o_ahead := @.leasehold_v2_ahead(p_ns, p_name, p_holder, null, at);
                exit decide;
            elsif tick.o_standing > 2 then
                continue when locked = 0 and tick.o_known; -- It may have been given back since.
                o_outcome := tick.o_standing; o_value := tick.o_value; o_attempt := tick.o_known::integer;
                exit decide;
            end if;
        end if;

        -- Who is seen to wait for a lock that is held only says that it is still there. It keeps nobody from anything.
        if locked = 0 and taken >= p_permits and p_queue and p_ticket is not null then
            update @.leasehold_waiters w set seen = at, sent = p_sent, ttl = p_ttl, client = p_client
                where w.ns = p_ns and w.name = p_name and w.holder = p_holder and w.seen > at - 1000000
                returning w.ticket into o_ticket;
            continue when not found;
            perform set_config('synchronous_commit', 'off', true);
            o_ahead := @.leasehold_v2_ahead(p_ns, p_name, p_holder, o_ticket, at);
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
        o_ahead := @.leasehold_v2_ahead(p_ns, p_name, p_holder, place, at);

        -- One that was revoked has its permit still, and is to have no other.
        if mine is null and p_permits - taken > o_ahead then
            free := @.leasehold_v2_free_slot(p_ns, p_name, p_permits, at, one.expires <= at and not fenced);
            if free is not null then
                if @.leasehold_v2_has_no_token(last, p_epoch, at) then
                    o_outcome := 10;
                    return;
                end if;
                o_token := @.leasehold_v2_next_token(last, p_epoch, at);
                if free > 0 then
                    insert into @.leasehold_locks(ns, name, slot) values (p_ns, p_name, free) on conflict do nothing;
                end if;
                update @.leasehold_locks l
                    set holder = p_holder, label = p_label, token = o_token, granted = at, expires = at + p_ttl,
                        revoked = false, tag = p_epoch
                    where l.ns = p_ns and l.name = p_name and l.slot = free;
                delete from @.leasehold_waiters w where w.ns = p_ns and w.name = p_name and w.holder = p_holder;
                if one.permits <> p_permits then
                    update @.leasehold_locks l set permits = p_permits
                        where l.ns = p_ns and l.name = p_name and l.slot = 0;
                    perform @.leasehold_v2_trim(p_ns, p_name, p_permits, at);
                end if;
                o_attempt := 0;
                if p_tick is not null then
                    -- A claim with a tick has to survive a power failure: the tick would run once more.
                    perform @.leasehold_v2_lasting();
                    o_attempt := coalesce(tick.o_attempts, 0) + 1;
                    o_value := @.leasehold_v2_claim_tick(
                        p_ns, p_name, p_holder, p_tick, p_retry, p_keep, o_attempt, tick.o_known, at);
                end if;
                perform @.leasehold_v2_remember(p_ns, p_name, one.kept, one.forget_at, p_keep, at);
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
            perform @.leasehold_v2_remember(p_ns, p_name, one.kept, one.forget_at, 0, at);
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
