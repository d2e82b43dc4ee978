begin isolation level read committed;
select pg_advisory_xact_lock(7810759600743279467); -- one at a time
create table if not exists "public".leasehold_schema(
    one integer primary key check (one = 1),
    version integer not null,          -- of the tables
    oldest integer not null,           -- the oldest version of Leasehold's own that may still use them
    home text not null                 -- random: tells these tables from others of the same names
);

-- Times are microseconds since 1970 in UTC, by the server's clock: no time zone has a say in them.

create table if not exists "public".leasehold_locks(
    ns text collate "C" not null,
    name text collate "C" not null,
    slot bigint not null,              -- of the permits; the first is there for each name, and says what holds for all
    holder text collate "C",           -- null: free, or with an end in the future kept after a release
    label text not null default '',
    token bigint not null default 0,
    granted bigint not null default 0,
    expires bigint not null default 0,
    revoked boolean not null default false,
    -- From here on in the first slot only.
    permits bigint not null default 1,
    mark bigint,                       -- the newest tick that was claimed, milliseconds since 1970; only grows
    keep bigint,                       -- how long a key is remembered after its last use
    key_ends bigint,                   -- until when it is
    kept bigint not null default 0,    -- how long the name is
    forget_at bigint not null default 0,
    primary key(ns, name, slot)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

create index if not exists leasehold_forget on "public".leasehold_locks(forget_at) where slot = 0;

create table if not exists "public".leasehold_waiters(
    ns text collate "C" not null,
    name text collate "C" not null,
    holder text collate "C" not null,
    label text not null,
    client text collate "C" not null,  -- which process waits, so that only that one is woken; '': it looks by itself
    ticket bigint not null,
    seen bigint not null,
    sent bigint,                       -- null: not to be handed the lock
    ttl bigint not null,
    primary key(ns, name, holder)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

create index if not exists leasehold_queue on "public".leasehold_waiters(ns, name, ticket, holder);

create table if not exists "public".leasehold_ticks(
    ns text collate "C" not null,
    name text collate "C" not null,
    tick bigint not null,              -- claimed and not finished
    holder text collate "C",           -- null: whoever had it never began
    attempts integer not null,
    once boolean not null,             -- whether it was promised to run once at most
    primary key(ns, name, tick)
);

create or replace function "public".leasehold_v1_now() returns bigint language sql volatile
as $$ select (extract(epoch from clock_timestamp()) * 1000000)::bigint $$;

-- What keeps a token from being made: a clock before this program was built, or an hour behind what it was at the last
-- one. Once that counter is lost, tokens would begin below it. The milliseconds are those from 2020 to 1 November 2026.
create or replace function "public".leasehold_v1_clock_is_wrong(at bigint, last bigint) returns boolean language sql immutable
as $$
    select at / 1000 - 1577836800000 < 215654400000
        or coalesce(last, 0) > (at / 1000 - 1577836800000 + 3600000) << 4
$$;

create or replace function "public".leasehold_v1_next_token(last bigint, at bigint) returns bigint language sql immutable
as $$ select greatest(coalesce(last, 0) + 1, (at / 1000 - 1577836800000) << 4) $$;

-- How many live waiters stand before a place; all others if there is none. An entry from the future is as dead as an
-- old one: the clock was set back.
create or replace function "public".leasehold_v1_ahead(p_ns text, p_name text, p_holder text, place bigint, at bigint)
returns bigint language plpgsql volatile as $$
begin
    return (select count(*) from "public".leasehold_waiters w
        where w.ns = p_ns and w.name = p_name and w.seen > at - 1000000 and w.seen <= at + 1000000
            and w.holder <> p_holder and (place is null or (w.ticket, w.holder) < (place, p_holder)));
end
$$;

-- The first slot that may be granted, locked; none if a fence stands in all that look free.
create or replace function "public".leasehold_v1_free_slot(
    p_ns text, p_name text, p_permits bigint, at bigint, first_is_ours boolean)
returns bigint language plpgsql volatile as $$
declare
    free bigint;
begin
    if first_is_ours then return 0; end if;
    select l.slot into free from "public".leasehold_locks l
        where l.ns = p_ns and l.name = p_name and l.slot < p_permits and l.expires <= at
        order by l.slot limit 1 for update skip locked;
    if found then return free; end if;
    select g into free from generate_series(0, p_permits - 1) g
        where not exists (
            select from "public".leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = g)
        limit 1;
    return free;
end
$$;

-- Writes down that a tick was claimed. Answers which other one was given up for it.
create or replace function "public".leasehold_v1_claim_tick(
    p_ns text, p_name text, p_holder text, p_tick bigint, p_retry boolean, p_keep bigint, attempt integer,
    known boolean, at bigint)
returns bigint language plpgsql volatile as $$
declare
    gave_up bigint;
begin
    update "public".leasehold_locks l
        set mark = greatest(l.mark, p_tick), keep = case when p_tick = 0 then p_keep end,
            key_ends = case when p_tick = 0 then at + p_keep end
        where l.ns = p_ns and l.name = p_name and l.slot = 0;
    insert into "public".leasehold_ticks(ns, name, tick, holder, attempts, once)
        values (p_ns, p_name, p_tick, p_holder, attempt, not p_retry)
        on conflict (ns, name, tick) do update set holder = p_holder, attempts = attempt, once = not p_retry;
    if not known then
        delete from "public".leasehold_ticks t
            where t.ns = p_ns and t.name = p_name and t.tick = (
                select o.tick from "public".leasehold_ticks o where o.ns = p_ns and o.name = p_name
                order by o.tick desc offset 32 limit 1)
            returning t.tick into gave_up;
    end if;
    return gave_up;
end
$$;

-- A name is remembered for nine days after its last use, or for as long as a tick asks for. Pushed out once in a day;
-- and whoever brings something that has to be forgotten one day forgets a little more than that.
create or replace function "public".leasehold_v1_remember(
    p_ns text, p_name text, p_kept bigint, p_forget_at bigint, p_keep bigint, at bigint)
returns void language plpgsql volatile as $$
declare
    for_long bigint := greatest(p_keep, p_kept, 604800000000);
    old record;
begin
    if p_kept = for_long and p_forget_at >= at + for_long + 86400000000 then return; end if;
    update "public".leasehold_locks l set kept = for_long, forget_at = at + for_long + 172800000000
        where l.ns = p_ns and l.name = p_name and l.slot = 0;
    for old in
        select l.ns, l.name from "public".leasehold_locks l
        where l.slot = 0 and l.forget_at <= at and not (l.ns = p_ns and l.name = p_name)
            and not exists (
                select from "public".leasehold_locks o where o.ns = l.ns and o.name = l.name and o.expires > at)
        order by l.forget_at limit 4 for update of l skip locked
    loop
        delete from "public".leasehold_locks l where l.ctid = any(array(
            select o.ctid from "public".leasehold_locks o where o.ns = old.ns and o.name = old.name and o.slot > 0
            for update skip locked));
        -- A fence may stand in one; then another time.
        continue when exists (
            select from "public".leasehold_locks o where o.ns = old.ns and o.name = old.name and o.slot > 0);
        delete from "public".leasehold_ticks t where t.ns = old.ns and t.name = old.name;
        delete from "public".leasehold_waiters w where w.ns = old.ns and w.name = old.name;
        delete from "public".leasehold_locks l where l.ns = old.ns and l.name = old.name;
    end loop;
end
$$;

-- What became of a tick (1 done · 2 failed · 3 never begun); counts whoever holds the name by now.
create or replace function "public".leasehold_v1_judge(p_ns text, p_name text, p_holder text, p_verdict integer, p_tick bigint)
returns void language plpgsql volatile as $$
declare
    told boolean;
begin
    if p_verdict = 1 then
        delete from "public".leasehold_ticks t where t.ns = p_ns and t.name = p_name and t.tick = p_tick;
    elsif p_verdict = 2 then
        delete from "public".leasehold_ticks t
            where t.ns = p_ns and t.name = p_name and t.holder = p_holder and t.once;
    else
        update "public".leasehold_ticks t set holder = null, attempts = greatest(t.attempts - 1, 0)
            where t.ns = p_ns and t.name = p_name and t.holder = p_holder;
    end if;
    told := found;
    -- What became of a tick has to survive as its claim has.
    if told and current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    -- What is remembered for a while is so from its end on, and its name with it. Who only leaves ends nothing.
    if p_verdict = 3 and not told then return; end if;
    update "public".leasehold_locks l
        set key_ends = "public".leasehold_v1_now() + l.keep,
            forget_at = greatest(l.forget_at, "public".leasehold_v1_now() + l.kept + 172800000000)
        where l.ns = p_ns and l.name = p_name and l.slot = 0 and l.keep is not null;
end
$$;

-- Ends the holder's lease, if it is alive; nobody else gets it for `rest`. Answers whether it was. Touches nothing that
-- a fence looks at but the holder: an open one stays, and keeps the next one out until it ends.
create or replace function "public".leasehold_v1_free(p_ns text, p_name text, p_holder text, rest bigint, at bigint)
returns boolean language plpgsql volatile as $$
begin
    update "public".leasehold_locks l set holder = null, expires = at + rest, revoked = false
        where l.ns = p_ns and l.name = p_name and l.holder = p_holder and l.expires > at;
    return found;
end
$$;

-- Locks a name's first slot; what the clock shows then.
create or replace function "public".leasehold_v1_lock(p_ns text, p_name text) returns bigint language plpgsql volatile as $$
begin
    perform 1 from "public".leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0 for no key update;
    return "public".leasehold_v1_now();
end
$$;

-- Something of the name is free: hands the lock over to the first who waits, or wakes as many as there are permits.
-- Whose process doesn't listen any more is passed over, for it is dead. That it does is
-- said by a lock that its session has, which is gone with it.
create or replace function "public".leasehold_v1_pass_on(p_ns text, p_name text, at bigint)
returns void language plpgsql volatile as $$
declare
    permits bigint; taken bigint; last bigint;
    next "public".leasehold_waiters%rowtype;
    new_token bigint;
begin
    select max(l.permits) filter (where l.slot = 0), count(*) filter (where l.expires > at), max(l.token)
        into permits, taken, last
        from "public".leasehold_locks l where l.ns = p_ns and l.name = p_name;
    for next in
        select * from "public".leasehold_waiters w
        where w.ns = p_ns and w.name = p_name and w.seen > at - 1000000 and w.seen <= at + 1000000
        order by w.ticket, w.holder
    loop
        exit when taken >= permits;
        if next.client <> '' and pg_try_advisory_xact_lock_shared(('x' || next.client)::bit(64)::bigint) then
            -- It comes back to its place if it was only cut off.
            delete from "public".leasehold_waiters o
                where o.ns = p_ns and o.name = p_name and o.holder = next.holder and o.client = next.client;
            continue;
        end if;
        taken := taken + 1; -- By this one, or kept for it.
        continue when next.client = '';
        if permits > 1 or next.sent is null
            or "public".leasehold_v1_clock_is_wrong(at, last)
            or "public".leasehold_v1_free_slot(p_ns, p_name, 1, at, false) is null
        then
            perform pg_notify('leasehold_' || next.client, '- - - ' || next.name);
            continue;
        end if;
        new_token := "public".leasehold_v1_next_token(last, at);
        -- As it stands now: it may have asked again meanwhile, or have gone.
        delete from "public".leasehold_waiters o where o.ns = p_ns and o.name = p_name and o.holder = next.holder
            returning o.* into next;
        if not found then
            taken := taken - 1;
            continue;
        end if;
        update "public".leasehold_locks l
            set holder = next.holder, label = next.label, token = new_token, granted = at, expires = at + next.ttl,
                revoked = false
            where l.ns = p_ns and l.name = p_name and l.slot = 0;
        perform pg_notify(
            'leasehold_' || next.client, next.holder || ' ' || new_token || ' ' || next.sent || ' ' || next.name);
    end loop;
end
$$;

-- Every name that is held, kept or waited for, or one: a row for each slot that is taken, and for the first.
create or replace function "public".leasehold_v1_look(p_ns text, p_name text)
returns table(name text, waiting bigint, permits bigint, holder text, label text, token bigint, age bigint, rest bigint,
    revoked boolean)
language plpgsql volatile as $$
#variable_conflict use_column
declare
    at bigint := "public".leasehold_v1_now();
begin
    if pg_is_in_recovery() then
        -- It would be answered as it once was.
        raise exception 'a standby takes no writes' using errcode = 'read_only_sql_transaction';
    end if;
    return query
        with waited as materialized (
            select w.name, count(*) as waiting from "public".leasehold_waiters w
            where w.ns = p_ns and (p_name is null or w.name = p_name)
                and w.seen > at - 1000000 and w.seen <= at + 1000000
            group by w.name),
        shown as materialized (
            select l.name from "public".leasehold_locks l
            where l.ns = p_ns and (p_name is null or l.name = p_name) and l.expires > at
            union select w.name from waited w)
        select l.name, coalesce(w.waiting, 0), l.permits, l.holder, l.label, l.token, at - l.granted, l.expires - at,
            l.revoked
        from shown s
        join "public".leasehold_locks l on l.ns = p_ns and l.name = s.name and (l.slot = 0 or l.expires > at)
        left join waited w on w.name = l.name
        order by l.name, l.slot;
end
$$;

-- Asks for a lease. Outcomes: 1 granted · 2 held · 3 claimed before (o_value: the newest; o_attempt: unfinished) ·
-- 4 ahead of the clock by o_value · 5 behind it by o_value · 6 others have o_permits · 7 the clock is wrong
create or replace procedure "public".leasehold_v1_acquire(
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
    one "public".leasehold_locks%rowtype;     -- the first slot
    fenced boolean;                    -- it may be
    taken bigint; held bigint; last bigint;
    mine bigint; refused boolean;      -- the slot that is the claimant's, and whether that was revoked
    open "public".leasehold_ticks%rowtype;
    known boolean;
    place bigint;
    free bigint;
begin
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
    o_outcome := 2; o_ahead := 0; o_permits := 1;

    -- Most claims are for a plain lock that is free and has nobody in its way.
    if p_tick is null and p_permits = 1 then
        at := "public".leasehold_v1_now();
        select * into one from "public".leasehold_locks l
            where l.ns = p_ns and l.name = p_name and l.slot = 0 and l.expires <= at
            for update skip locked;
        if found and one.permits = 1 and not "public".leasehold_v1_clock_is_wrong(at, one.token)
            and not exists (select from "public".leasehold_waiters w where w.ns = p_ns and w.name = p_name)
            and not exists (select from "public".leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot > 0)
        then
            update "public".leasehold_locks l
                set holder = p_holder, label = p_label, token = "public".leasehold_v1_next_token(one.token, at),
                    granted = at, expires = at + p_ttl, revoked = false
                where l.ns = p_ns and l.name = p_name and l.slot = 0
                returning l.token into o_token;
            if one.forget_at < at + one.kept + 86400000000 then
                perform "public".leasehold_v1_remember(p_ns, p_name, one.kept, one.forget_at, 0, at);
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
            select * into one from "public".leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0;
            at := "public".leasehold_v1_now();
            -- It looks free.
            continue when not found or (one.expires <= at and (p_tick is null or one.mark is null or p_tick > one.mark));
        else
            loop
                -- A fence lets a lock of the weaker kind pass.
                select * into one from "public".leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0
                    for update skip locked;
                fenced := not found;
                exit when found;
                select * into one from "public".leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0
                    for no key update;
                exit when found;
                insert into "public".leasehold_locks(ns, name, slot) values (p_ns, p_name, 0) on conflict do nothing;
            end loop;
            at := "public".leasehold_v1_now();
        end if;

        select count(*) filter (where l.expires > at), count(l.holder) filter (where l.expires > at), max(l.token),
                max(l.slot) filter (where l.expires > at and l.holder = p_holder),
                bool_or(l.revoked) filter (where l.expires > at and l.holder = p_holder)
            into taken, held, last, mine, refused
            from "public".leasehold_locks l where l.ns = p_ns and l.name = p_name;
        if locked = 1 and "public".leasehold_v1_clock_is_wrong(at, last) then
            o_outcome := 7;
            exit decide;
        end if;

        -- The same holder, alive: the same grant, its end moved and never back.
        if mine is not null and not refused then
            continue when locked = 0;
            update "public".leasehold_locks l set expires = greatest(l.expires, at + p_ttl)
                where l.ns = p_ns and l.name = p_name and l.slot = mine returning l.token into o_token;
            delete from "public".leasehold_waiters w where w.ns = p_ns and w.name = p_name and w.holder = p_holder;
            select t.attempts into o_attempt from "public".leasehold_ticks t
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
                update "public".leasehold_locks l set mark = null, keep = null, key_ends = null
                    where l.ns = p_ns and l.name = p_name and l.slot = 0;
                delete from "public".leasehold_ticks t where t.ns = p_ns and t.name = p_name;
                one.mark := null;
            end if;
            select * into open from "public".leasehold_ticks t where t.ns = p_ns and t.name = p_name and t.tick = p_tick;
            known := found;
            if p_tick <= one.mark then
                perform 1 from "public".leasehold_locks l
                    where l.ns = p_ns and l.name = p_name and l.expires > at and l.holder = open.holder;
                if found then
                    o_ahead := "public".leasehold_v1_ahead(p_ns, p_name, p_holder, null, at);
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
            update "public".leasehold_waiters w set seen = at, sent = p_sent, ttl = p_ttl, client = p_client
                where w.ns = p_ns and w.name = p_name and w.holder = p_holder and w.seen > at - 1000000
                returning w.ticket into o_ticket;
            continue when not found;
            perform set_config('synchronous_commit', 'off', true);
            o_ahead := "public".leasehold_v1_ahead(p_ns, p_name, p_holder, o_ticket, at);
            exit decide;
        end if;
        continue when locked = 0 and (p_queue or taken < p_permits);

        if p_queue then
            select w.ticket into place from "public".leasehold_waiters w
                where w.ns = p_ns and w.name = p_name and w.holder = p_holder;
            place := coalesce(place, p_ticket);
            if place is null then
                -- From the clock, so that a queue whose entries were all taken out doesn't put newcomers first.
                select greatest(at, max(w.ticket) + 1) into place from "public".leasehold_waiters w
                    where w.ns = p_ns and w.name = p_name;
            end if;
        end if;
        o_ahead := "public".leasehold_v1_ahead(p_ns, p_name, p_holder, place, at);

        -- One that was revoked has its permit still, and is to have no other.
        if mine is null and p_permits - taken > o_ahead then
            free := "public".leasehold_v1_free_slot(p_ns, p_name, p_permits, at, one.expires <= at and not fenced);
            if free is not null then
                o_token := "public".leasehold_v1_next_token(last, at);
                if free > 0 then
                    insert into "public".leasehold_locks(ns, name, slot) values (p_ns, p_name, free) on conflict do nothing;
                end if;
                update "public".leasehold_locks l
                    set holder = p_holder, label = p_label, token = o_token, granted = at, expires = at + p_ttl,
                        revoked = false
                    where l.ns = p_ns and l.name = p_name and l.slot = free;
                delete from "public".leasehold_waiters w where w.ns = p_ns and w.name = p_name and w.holder = p_holder;
                if one.permits <> p_permits then
                    update "public".leasehold_locks l set permits = p_permits
                        where l.ns = p_ns and l.name = p_name and l.slot = 0;
                    -- Slots that are none any more, unless a fence stands in one.
                    delete from "public".leasehold_locks l where l.ctid = any(array(
                        select o.ctid from "public".leasehold_locks o
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
                    o_value := "public".leasehold_v1_claim_tick(
                        p_ns, p_name, p_holder, p_tick, p_retry, p_keep, o_attempt, known, at);
                end if;
                perform "public".leasehold_v1_remember(p_ns, p_name, one.kept, one.forget_at, p_keep, at);
                o_outcome := 1;
                return;
            end if;
        end if;

        if place is not null then
            delete from "public".leasehold_waiters w
                where w.ns = p_ns and w.name = p_name and (w.seen <= at - 1000000 or w.seen > at + 1000000);
            insert into "public".leasehold_waiters(ns, name, holder, label, client, ticket, seen, sent, ttl)
                values (p_ns, p_name, p_holder, p_label, p_client, place, at, p_sent, p_ttl)
                on conflict(ns, name, holder)
                do update set client = p_client, seen = at, sent = p_sent, ttl = p_ttl;
            perform "public".leasehold_v1_remember(p_ns, p_name, one.kept, one.forget_at, 0, at);
            o_ticket := place;
        end if;
        exit decide;
    end loop;

    -- Nothing was promised, so nothing is lost with it.
    if p_queue and o_ticket is null then
        delete from "public".leasehold_waiters w where w.ns = p_ns and w.name = p_name and w.holder = p_holder;
    end if;
    perform set_config('synchronous_commit', 'off', true);
    if o_outcome = 2 then
        select array_agg(l.holder), array_agg(l.label), array_agg(l.token), array_agg(at - l.granted),
                array_agg(l.expires - at), array_agg(l.revoked)
            into o_holders, o_labels, o_tokens, o_ages, o_rests, o_revoked
            from "public".leasehold_locks l
            where l.ns = p_ns and l.name = p_name and (l.slot = 0 or l.expires > at);
    end if;
end
$$;

-- Ends a lease. 1: it was the holder's · 0: it was not (any more).
create or replace procedure "public".leasehold_v1_release(
    p_ns text, p_name text, p_holder text, p_rest bigint, p_verdict integer, p_tick bigint, inout o_released integer)
language plpgsql as $$
declare
    at bigint;
begin
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
    o_released := 0;
    at := "public".leasehold_v1_now();
    if p_verdict is null and p_rest = 0 then
        -- Most releases have nothing to say. The first slot is what keeps others from deciding at the same time.
        update "public".leasehold_locks l set holder = null, expires = at, revoked = false
            where l.ns = p_ns and l.name = p_name and l.slot = 0 and l.holder = p_holder and l.expires > at;
        if found then
            o_released := 1;
            if exists (select from "public".leasehold_waiters w where w.ns = p_ns and w.name = p_name) then
                perform "public".leasehold_v1_pass_on(p_ns, p_name, "public".leasehold_v1_now());
            end if;
            return;
        end if;
    end if;
    if p_verdict is null then
        -- A late release changes nothing.
        perform 1 from "public".leasehold_locks l
            where l.ns = p_ns and l.name = p_name and l.holder = p_holder and l.expires > at;
        if not found then return; end if;
    end if;
    at := "public".leasehold_v1_lock(p_ns, p_name);
    if p_verdict is not null then
        perform "public".leasehold_v1_judge(p_ns, p_name, p_holder, p_verdict, p_tick);
    end if;
    if "public".leasehold_v1_free(p_ns, p_name, p_holder, p_rest, at) then
        o_released := 1;
        if p_rest = 0 then perform "public".leasehold_v1_pass_on(p_ns, p_name, at); end if;
    end if;
end
$$;

-- Out of the queue; what was granted meanwhile is free again, its work never begun. 1: there was something to leave.
create or replace procedure "public".leasehold_v1_leave(p_ns text, p_name text, p_holder text, inout o_left integer)
language plpgsql as $$
declare
    at bigint;
begin
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
    at := "public".leasehold_v1_lock(p_ns, p_name);
    delete from "public".leasehold_waiters w where w.ns = p_ns and w.name = p_name and w.holder = p_holder;
    o_left := found::integer;
    perform "public".leasehold_v1_judge(p_ns, p_name, p_holder, 3, 0);
    if "public".leasehold_v1_free(p_ns, p_name, p_holder, 0, at) then o_left := 1; end if;
    if o_left = 1 then perform "public".leasehold_v1_pass_on(p_ns, p_name, at); end if;
end
$$;

-- Renews leases. An answer for each: 1 renewed · 2 revoked · 0 gone · 3 somebody is at it: ask again, `p_patient`.
create or replace procedure "public".leasehold_v1_renew(
    p_ns text, p_names text[], p_holders text[], p_ttls bigint[], p_patient boolean, inout o_answers integer[])
language plpgsql as $$
declare
    at bigint;
    renewed text[];
begin
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
    if p_patient then
        -- What is behind this waits for it.
        perform set_config('lock_timeout', '100ms', true);
        -- For one lease only, so that nobody who is waited for waits for us.
        perform 1 from "public".leasehold_locks l
            where l.ns = p_ns and l.name = p_names[1] and l.holder = p_holders[1] for no key update;
    end if;
    at := "public".leasehold_v1_now();
    with wanted as materialized (
        select u.name, u.holder, max(u.ttl) as ttl
        from unnest(p_names, p_holders, p_ttls) as u(name, holder, ttl) group by u.name, u.holder),
    ours as materialized (
        select l.name, l.slot, l.holder, w.ttl
        from wanted w join "public".leasehold_locks l on l.ns = p_ns and l.name = w.name and l.holder = w.holder
        where l.expires > at and not l.revoked
        for no key update of l skip locked),
    done as (
        -- Never back: an overtaken renewal must not cut what a later one has promised.
        update "public".leasehold_locks l set expires = greatest(l.expires, at + o.ttl)
        from ours o where l.ns = p_ns and l.name = o.name and l.slot = o.slot
        returning l.holder)
    select array_agg(d.holder) into renewed from done d;
    select array_agg(
            case
                when u.holder = any(renewed) then 1
                when l.holder is null then 0
                when l.revoked then 2
                else 3
            end order by u.nth)
        into o_answers
        from unnest(p_names, p_holders) with ordinality as u(name, holder, nth)
        left join "public".leasehold_locks l
            on l.ns = p_ns and l.name = u.name and l.holder = u.holder and l.expires > at;
end
$$;

-- Ends somebody else's hold, or everybody's (p_holder null); what it was, as acquire tells it.
create or replace procedure "public".leasehold_v1_revoke(
    p_ns text, p_name text, p_holder text, p_now boolean,
    inout o_waiting bigint, inout o_permits bigint,
    inout o_holders text[], inout o_labels text[], inout o_tokens bigint[],
    inout o_ages bigint[], inout o_rests bigint[], inout o_revoked boolean[])
language plpgsql as $$
declare
    at bigint;
begin
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
    at := "public".leasehold_v1_lock(p_ns, p_name);
    select array_agg(l.holder), array_agg(l.label), array_agg(l.token), array_agg(at - l.granted),
            array_agg(l.expires - at), array_agg(l.revoked)
        into o_holders, o_labels, o_tokens, o_ages, o_rests, o_revoked
        from "public".leasehold_locks l
        where l.ns = p_ns and l.name = p_name and l.expires > at and (p_holder is null or l.holder = p_holder);
    o_waiting := "public".leasehold_v1_ahead(p_ns, p_name, '', null, at);
    select l.permits into o_permits from "public".leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0;
    if o_holders is null then return; end if;
    if not p_now then
        update "public".leasehold_locks l set revoked = true
            where l.ns = p_ns and l.name = p_name and l.expires > at and (p_holder is null or l.holder = p_holder);
        return;
    end if;
    update "public".leasehold_locks l set holder = null, expires = 0, revoked = false
        where l.ns = p_ns and l.name = p_name and l.expires > at and (p_holder is null or l.holder = p_holder);
    perform "public".leasehold_v1_pass_on(p_ns, p_name, at);
end
$$;

-- Which kind of lock a namespace has: lease or advisory. Two kinds would not see one another's holders.
create table if not exists "public".leasehold_modes(
    ns text collate "C" not null primary key,
    mode text not null
);

-- The tokens of session locks, which a commit to the disk for each would make slow. Never behind the clock, and ahead of
-- it by a second at the most: where it is lost, it goes on from there.
create sequence if not exists "public".leasehold_tokens as bigint;

create or replace function "public".leasehold_v1_mode(p_ns text, p_mode text) returns text language plpgsql volatile as $$
declare
    agreed text;
begin
    select m.mode into agreed from "public".leasehold_modes m where m.ns = p_ns;
    if not found then
        insert into "public".leasehold_modes(ns, mode) values (p_ns, p_mode)
            on conflict (ns) do update set mode = leasehold_modes.mode returning mode into agreed;
    end if;
    return agreed;
end
$$;

-- A token for a lock that the session has just got, where the sequence is behind the clock: from then on it is a second
-- ahead of it.
create or replace function "public".leasehold_v1_token() returns bigint language plpgsql volatile as $$
declare
    least bigint := ("public".leasehold_v1_now() / 1000 - 1577836800000) << 4;
begin
    perform pg_advisory_xact_lock(2879136027345790653); -- one at a time
    if (select last_value from "public".leasehold_tokens) < least then
        perform setval('"public".leasehold_tokens', least + 16000);
    end if;
    return nextval('"public".leasehold_tokens');
end
$$;

insert into "public".leasehold_schema(one, version, oldest, home)
    values (1, 1, 1, md5(random()::text || clock_timestamp()))
    on conflict (one) do update set version = greatest(leasehold_schema.version, excluded.version),
        oldest = greatest(leasehold_schema.oldest, excluded.oldest);
commit;
