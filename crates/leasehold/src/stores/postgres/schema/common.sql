create or replace function @.leasehold_v2_now() returns bigint language sql volatile
as $$ select (extract(epoch from clock_timestamp()) * 1000000)::bigint $$;

-- What keeps a token from being made: a clock before this program was built, or an hour behind what it was at the last
-- one. Once that counter is lost, tokens would begin below it. The milliseconds are those from 2020 to 1 November 2026.
create or replace function @.leasehold_v2_clock_is_wrong(at bigint, last bigint) returns boolean language sql immutable
as $$
    select at / 1000 - 1577836800000 < 215654400000
        or coalesce(last, 0) > (at / 1000 - 1577836800000 + 3600000) << 4
$$;

-- The counter in the last token, if that is of this epoch (null: of none). Another epoch's begins anew, for its tokens are
-- larger anyway, and what was carried here has another store's counter, which another clock may have made.
create or replace function @.leasehold_v2_counter(last bigint, p_epoch bigint) returns bigint language sql immutable
as $$ select case when last >> 46 = coalesce(p_epoch, 0) then last & 70368744177663 end $$;

create or replace function @.leasehold_v2_next_token(last bigint, p_epoch bigint, at bigint)
returns bigint language sql immutable
as $$
    select case
        when p_epoch is null then greatest(coalesce(last, 0) + 1, (at / 1000 - 1577836800000) << 4)
        else p_epoch << 46
            | greatest(coalesce(@.leasehold_v2_counter(last, p_epoch), 0) + 1, (at / 1000 - 1577836800000) << 4)
    end
$$;

-- Whether the next token has no room for its epoch, or its counter.
create or replace function @.leasehold_v2_has_no_token(last bigint, p_epoch bigint, at bigint)
returns boolean language sql immutable
as $$
    select p_epoch > 131071 or p_epoch < 0
        or @.leasehold_v2_counter(last, p_epoch) + 1 > 70368744177663
        or (at / 1000 - 1577836800000) << 4 > 70368744177663
$$;

-- What this transaction says is on the disk before it is answered, whatever others may wait for.
create or replace function @.leasehold_v2_lasting() returns void language plpgsql volatile as $$
begin
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end
$$;

-- How many live waiters stand before a place; all others if there is none. An entry from the future is as dead as an
-- old one: the clock was set back.
create or replace function @.leasehold_v2_ahead(p_ns text, p_name text, p_holder text, place bigint, at bigint)
returns bigint language plpgsql volatile as $$
begin
    return (select count(*) from @.leasehold_waiters w
        where w.ns = p_ns and w.name = p_name and w.seen > at - 1000000 and w.seen <= at + 1000000
            and w.holder <> p_holder and (place is null or (w.ticket, w.holder) < (place, p_holder)));
end
$$;

-- Locks a name's first slot, which is made if it isn't there: that keeps everybody else from deciding at the same time.
-- Answers whether a fence stands in it.
create or replace function @.leasehold_v2_own(p_ns text, p_name text) returns boolean language plpgsql volatile as $$
begin
    loop
        perform 1 from @.leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0 for update skip locked;
        if found then return false; end if;
        -- A fence lets a lock of the weaker kind pass.
        perform 1 from @.leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0 for no key update;
        if found then
            -- It may only have been somebody's turn before ours.
            perform 1 from @.leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0
                for update skip locked;
            return not found;
        end if;
        insert into @.leasehold_locks(ns, name, slot) values (p_ns, p_name, 0) on conflict do nothing;
    end loop;
end
$$;

-- Lets go of slots that are none any more, unless a fence stands in one.
create or replace function @.leasehold_v2_trim(p_ns text, p_name text, p_permits bigint, at bigint)
returns void language plpgsql volatile as $$
begin
    delete from @.leasehold_locks l where l.ctid = any(array(
        select o.ctid from @.leasehold_locks o
        where o.ns = p_ns and o.name = p_name and o.slot >= p_permits and o.expires <= at
        for update skip locked));
end
$$;

-- The first slot that may be granted, locked; none if a fence stands in all that look free.
create or replace function @.leasehold_v2_free_slot(
    p_ns text, p_name text, p_permits bigint, at bigint, first_is_ours boolean)
returns bigint language plpgsql volatile as $$
declare
    free bigint;
begin
    if first_is_ours then return 0; end if;
    select l.slot into free from @.leasehold_locks l
        where l.ns = p_ns and l.name = p_name and l.slot < p_permits and l.expires <= at
        order by l.slot limit 1 for update skip locked;
    if found then return free; end if;
    select g into free from generate_series(0, p_permits - 1) g
        where not exists (
            select from @.leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = g)
        limit 1;
    return free;
end
$$;

-- A key whose time is over was never there.
create or replace function @.leasehold_v2_forget_key(p_ns text, p_name text) returns void language plpgsql volatile as $$
begin
    update @.leasehold_locks l set mark = null, keep = null, key_ends = null
        where l.ns = p_ns and l.name = p_name and l.slot = 0;
    delete from @.leasehold_ticks t where t.ns = p_ns and t.name = p_name;
end
$$;

-- How a tick stands beside a mark, if those who are alive have a lease: 1 it may be claimed · 2 it is running · 3 it was
-- claimed before (o_value: the newest) · 4 it is ahead of the clock by o_value · 5 behind it. Whether it stands open, and
-- how often it was claimed then.
create or replace function @.leasehold_v2_standing(
    p_ns text, p_name text, p_tick bigint, p_retry boolean, p_keep bigint, mark bigint, alive text[], at bigint,
    out o_standing integer, out o_value bigint, out o_known boolean, out o_attempts integer)
language plpgsql volatile as $$
declare
    open @.leasehold_ticks%rowtype;
begin
    o_standing := 1; o_known := false;
    if p_tick <> 0 and p_tick * 1000 > at + 300000000 then
        o_standing := 4; o_value := p_tick * 1000 - at;
        return;
    elsif p_tick <> 0 and at - p_tick * 1000 > p_keep - 300000000 then
        o_standing := 5; o_value := at - p_tick * 1000;
        return;
    end if;
    select * into open from @.leasehold_ticks t where t.ns = p_ns and t.name = p_name and t.tick = p_tick;
    o_known := found; o_attempts := open.attempts;
    if p_tick <= mark then
        if open.holder = any(alive) then
            o_standing := 2;
        elsif not o_known or not (open.attempts = 0 or (p_retry and not open.once)) then
            o_standing := 3; o_value := mark;
        end if;
    end if;
end
$$;

-- Whether a transaction that is open completes this tick. Else its row, if there is one, is locked: whoever may claim it waits
-- for nobody. To be asked by whoever has the name's first slot.
create or replace function @.leasehold_v3_being_completed(p_ns text, p_name text, p_tick bigint)
returns boolean language plpgsql volatile as $$
begin
    perform 1 from @.leasehold_ticks t where t.ns = p_ns and t.name = p_name and t.tick = p_tick for update skip locked;
    return not found and exists (
        select from @.leasehold_ticks t where t.ns = p_ns and t.name = p_name and t.tick = p_tick);
end
$$;

-- Writes down that a tick was claimed. Answers which other one was given up for it.
create or replace function @.leasehold_v2_claim_tick(
    p_ns text, p_name text, p_holder text, p_tick bigint, p_retry boolean, p_keep bigint, attempt integer,
    known boolean, at bigint)
returns bigint language plpgsql volatile as $$
declare
    gave_up bigint;
begin
    update @.leasehold_locks l
        set mark = greatest(l.mark, p_tick), keep = case when p_tick = 0 then p_keep end,
            key_ends = case when p_tick = 0 then at + p_keep end
        where l.ns = p_ns and l.name = p_name and l.slot = 0;
    if known then
        update @.leasehold_ticks t set holder = p_holder, attempts = attempt, once = not p_retry
            where t.ns = p_ns and t.name = p_name and t.tick = p_tick;
        if not found then
            -- A transaction has completed it since it was looked at.
            raise exception 'leasehold: completed meanwhile, ask again' using errcode = 'serialization_failure';
        end if;
    else
        insert into @.leasehold_ticks(ns, name, tick, holder, attempts, once)
            values (p_ns, p_name, p_tick, p_holder, attempt, not p_retry)
            on conflict (ns, name, tick) do update set holder = p_holder, attempts = attempt, once = not p_retry;
        select o.tick into gave_up from @.leasehold_ticks o where o.ns = p_ns and o.name = p_name
            order by o.tick desc offset 32 limit 1;
        if gave_up is not null and @.leasehold_v3_being_completed(p_ns, p_name, gave_up) then
            gave_up := null; -- It is not open for much longer.
        end if;
        delete from @.leasehold_ticks t where t.ns = p_ns and t.name = p_name and t.tick = gave_up;
    end if;
    return gave_up;
end
$$;

-- A name is remembered for nine days after its last use, or for as long as a tick asks for. Pushed out once in a day;
-- and whoever brings something that has to be forgotten one day forgets a little more than that.
create or replace function @.leasehold_v2_remember(
    p_ns text, p_name text, p_kept bigint, p_forget_at bigint, p_keep bigint, at bigint)
returns void language plpgsql volatile as $$
declare
    for_long bigint := greatest(p_keep, p_kept, 604800000000);
    old record;
begin
    if p_kept = for_long and p_forget_at >= at + for_long + 86400000000 then return; end if;
    update @.leasehold_locks l set kept = for_long, forget_at = at + for_long + 172800000000
        where l.ns = p_ns and l.name = p_name and l.slot = 0;
    for old in
        select l.ns, l.name from @.leasehold_locks l
        where l.slot = 0 and l.forget_at <= at and not (l.ns = p_ns and l.name = p_name)
            and not exists (
                select from @.leasehold_locks o where o.ns = l.ns and o.name = l.name and o.expires > at)
        order by l.forget_at limit 4 for update of l skip locked
    loop
        delete from @.leasehold_locks l where l.ctid = any(array(
            select o.ctid from @.leasehold_locks o where o.ns = old.ns and o.name = old.name and o.slot > 0
            for update skip locked));
        -- A fence may stand in one; then another time.
        continue when exists (
            select from @.leasehold_locks o where o.ns = old.ns and o.name = old.name and o.slot > 0);
        delete from @.leasehold_ticks t where t.ns = old.ns and t.name = old.name;
        delete from @.leasehold_waiters w where w.ns = old.ns and w.name = old.name;
        delete from @.leasehold_locks l where l.ns = old.ns and l.name = old.name;
    end loop;
end
$$;

-- What became of a tick (1 done · 2 failed · 3 never begun); counts whoever holds the name by now.
create or replace function @.leasehold_v2_judge(p_ns text, p_name text, p_holder text, p_verdict integer, p_tick bigint)
returns void language plpgsql volatile as $$
declare
    told boolean;
    patience text := current_setting('lock_timeout');
begin
    -- A transaction that completes the tick may stay open, and what is behind this waits for it.
    perform set_config('lock_timeout', '100ms', true);
    if p_verdict = 1 then
        delete from @.leasehold_ticks t where t.ns = p_ns and t.name = p_name and t.tick = p_tick;
    elsif p_verdict = 2 then
        delete from @.leasehold_ticks t
            where t.ns = p_ns and t.name = p_name and t.holder = p_holder and t.once;
    else
        update @.leasehold_ticks t set holder = null, attempts = greatest(t.attempts - 1, 0)
            where t.ns = p_ns and t.name = p_name and t.holder = p_holder;
    end if;
    told := found;
    perform set_config('lock_timeout', patience, true);
    -- What became of a tick has to survive as its claim has.
    if told then perform @.leasehold_v2_lasting(); end if;
    -- What is remembered for a while is so from its end on, and its name with it. Who only leaves ends nothing.
    if p_verdict = 3 and not told then return; end if;
    update @.leasehold_locks l
        set key_ends = @.leasehold_v2_now() + l.keep,
            forget_at = greatest(l.forget_at, @.leasehold_v2_now() + l.kept + 172800000000)
        where l.ns = p_ns and l.name = p_name and l.slot = 0 and l.keep is not null;
end
$$;

-- Ends the holder's lease, if it is alive; nobody else gets it for `rest`. Answers whether it was. Touches nothing that
-- a fence looks at but the holder: an open one stays, and keeps the next one out until it ends.
create or replace function @.leasehold_v2_free(p_ns text, p_name text, p_holder text, rest bigint, at bigint)
returns boolean language plpgsql volatile as $$
begin
    update @.leasehold_locks l set holder = null, expires = at + rest, revoked = false
        where l.ns = p_ns and l.name = p_name and l.holder = p_holder and l.expires > at;
    return found;
end
$$;

-- Locks a name's first slot; what the clock shows then.
create or replace function @.leasehold_v2_lock(p_ns text, p_name text) returns bigint language plpgsql volatile as $$
begin
    perform 1 from @.leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0 for no key update;
    return @.leasehold_v2_now();
end
$$;

-- Something of the name is free: hands the lock over to the first who waits, or wakes as many as there are permits.
-- Whose process doesn't listen any more is passed over, for it is dead. That it does is
-- said by a lock that its session has, which is gone with it.
create or replace function @.leasehold_v2_pass_on(p_ns text, p_name text, at bigint)
returns void language plpgsql volatile as $$
declare
    permits bigint; taken bigint; last bigint;
    next @.leasehold_waiters%rowtype;
    new_token bigint;
begin
    select max(l.permits) filter (where l.slot = 0), count(*) filter (where l.expires > at), max(l.token)
        into permits, taken, last
        from @.leasehold_locks l where l.ns = p_ns and l.name = p_name;
    for next in
        select * from @.leasehold_waiters w
        where w.ns = p_ns and w.name = p_name and w.seen > at - 1000000 and w.seen <= at + 1000000
        order by w.ticket, w.holder
    loop
        exit when taken >= permits;
        if next.client <> '' and pg_try_advisory_xact_lock_shared(('x' || next.client)::bit(64)::bigint) then
            -- It comes back to its place if it was only cut off.
            delete from @.leasehold_waiters o
                where o.ns = p_ns and o.name = p_name and o.holder = next.holder and o.client = next.client;
            continue;
        end if;
        taken := taken + 1; -- By this one, or kept for it.
        continue when next.client = '';
        if permits > 1 or next.sent is null
            or @.leasehold_v2_clock_is_wrong(at, @.leasehold_v2_counter(last, null))
            or @.leasehold_v2_free_slot(p_ns, p_name, 1, at, false) is null
        then
            perform pg_notify('leasehold_' || next.client, '- - - ' || next.name);
            continue;
        end if;
        new_token := @.leasehold_v2_next_token(last, null, at);
        -- As it stands now: it may have asked again meanwhile, or have gone.
        delete from @.leasehold_waiters o where o.ns = p_ns and o.name = p_name and o.holder = next.holder
            returning o.* into next;
        if not found then
            taken := taken - 1;
            continue;
        end if;
        update @.leasehold_locks l
            set holder = next.holder, label = next.label, token = new_token, granted = at, expires = at + next.ttl,
                revoked = false, tag = null
            where l.ns = p_ns and l.name = p_name and l.slot = 0;
        perform pg_notify(
            'leasehold_' || next.client, next.holder || ' ' || new_token || ' ' || next.sent || ' ' || next.name);
    end loop;
end
$$;

-- Every name that is held, kept or waited for, or one: a row for each slot that is taken, and for the first.
create or replace function @.leasehold_v2_look(p_ns text, p_name text)
returns table(name text, waiting bigint, permits bigint, holder text, label text, token bigint, age bigint, rest bigint,
    revoked boolean)
language plpgsql volatile as $$
#variable_conflict use_column
declare
    at bigint := @.leasehold_v2_now();
begin
    if pg_is_in_recovery() then
        -- It would be answered as it once was.
        raise exception 'a standby takes no writes' using errcode = 'read_only_sql_transaction';
    end if;
    return query
        with waited as materialized (
            select w.name, count(*) as waiting from @.leasehold_waiters w
            where w.ns = p_ns and (p_name is null or w.name = p_name)
                and w.seen > at - 1000000 and w.seen <= at + 1000000
            group by w.name),
        shown as materialized (
            select l.name from @.leasehold_locks l
            where l.ns = p_ns and (p_name is null or l.name = p_name) and l.expires > at
            union select w.name from waited w)
        select l.name, coalesce(w.waiting, 0), l.permits, l.holder, l.label, l.token, at - l.granted, l.expires - at,
            l.revoked
        from shown s
        join @.leasehold_locks l on l.ns = p_ns and l.name = s.name and (l.slot = 0 or l.expires > at)
        left join waited w on w.name = l.name
        order by l.name, l.slot;
end
$$;
