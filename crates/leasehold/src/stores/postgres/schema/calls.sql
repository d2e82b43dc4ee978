-- Ends a lease. 1: it was the holder's · 0: it was not (any more).
create or replace procedure @.leasehold_v4_release(
    p_ns text, p_name text, p_holder text, p_rest bigint, p_verdict integer, p_tick bigint, inout o_released integer,
    inout o_asked bigint)
language plpgsql as $$
declare
    at bigint;
begin
    --@begin
    o_released := 0;
    at := @.leasehold_v2_now();
    if p_verdict is null and p_rest = 0 then
        -- Most releases have nothing to say. The first slot is what keeps others from deciding at the same time.
        update @.leasehold_locks l set holder = null, expires = at, revoked = false
            where l.ns = p_ns and l.name = p_name and l.slot = 0 and l.holder = p_holder and l.expires > at;
        if found then
            o_released := 1;
            if exists (select from @.leasehold_waiters w where w.ns = p_ns and w.name = p_name) then
                perform @.leasehold_v2_pass_on(p_ns, p_name, @.leasehold_v2_now());
            end if;
            return;
        end if;
    end if;
    if p_verdict is null then
        -- A late release changes nothing.
        perform 1 from @.leasehold_locks l
            where l.ns = p_ns and l.name = p_name and l.holder = p_holder and l.expires > at;
        if not found then return; end if;
    end if;
    at := @.leasehold_v2_lock(p_ns, p_name);
    if p_verdict is not null then
        perform @.leasehold_v2_judge(p_ns, p_name, p_holder, p_verdict, p_tick);
    end if;
    if @.leasehold_v2_free(p_ns, p_name, p_holder, p_rest, at) then
        o_released := 1;
        if p_rest = 0 then perform @.leasehold_v2_pass_on(p_ns, p_name, at); end if;
    end if;
end
$$;

-- Out of the queue; what was granted meanwhile is free again, its work never begun. 1: there was something to leave.
create or replace procedure @.leasehold_v4_leave(
    p_ns text, p_name text, p_holder text, inout o_left integer, inout o_asked bigint)
language plpgsql as $$
declare
    at bigint;
begin
    --@begin
    at := @.leasehold_v2_lock(p_ns, p_name);
    delete from @.leasehold_waiters w where w.ns = p_ns and w.name = p_name and w.holder = p_holder;
    o_left := found::integer;
    perform @.leasehold_v2_judge(p_ns, p_name, p_holder, 3, 0);
    if @.leasehold_v2_free(p_ns, p_name, p_holder, 0, at) then o_left := 1; end if;
    if o_left = 1 then perform @.leasehold_v2_pass_on(p_ns, p_name, at); end if;
end
$$;

-- Renews leases; with an epoch only those that have it as their tag. An answer for each: 1 renewed · 2 revoked · 0 gone · 3 somebody is at it: ask again, `p_patient`.
create or replace procedure @.leasehold_v4_renew(
    p_ns text, p_names text[], p_holders text[], p_ttls bigint[], p_patient boolean, p_epoch bigint,
    inout o_answers integer[], inout o_asked bigint)
language plpgsql as $$
declare
    at bigint;
    renewed text[];
begin
    --@begin
    if p_patient then
        -- What is behind this waits for it.
        perform set_config('lock_timeout', '100ms', true);
        -- For one lease only, so that nobody who is waited for waits for us.
        perform 1 from @.leasehold_locks l
            where l.ns = p_ns and l.name = p_names[1] and l.holder = p_holders[1] for no key update;
    end if;
    at := @.leasehold_v2_now();
    with wanted as materialized (
        select u.name, u.holder, max(u.ttl) as ttl
        from unnest(p_names, p_holders, p_ttls) as u(name, holder, ttl) group by u.name, u.holder),
    ours as materialized (
        select l.name, l.slot, l.holder, w.ttl
        from wanted w join @.leasehold_locks l on l.ns = p_ns and l.name = w.name and l.holder = w.holder
        where l.expires > at and not l.revoked and (p_epoch is null or l.tag = p_epoch)
        for no key update of l skip locked),
    done as (
        -- Never back: an overtaken renewal must not cut what a later one has promised.
        update @.leasehold_locks l set expires = greatest(l.expires, at + o.ttl)
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
        left join @.leasehold_locks l
            on l.ns = p_ns and l.name = u.name and l.holder = u.holder and l.expires > at
                and (p_epoch is null or l.tag = p_epoch);
end
$$;

-- Ends somebody else's hold, or everybody's (p_holder null); what it was, as acquire tells it.
create or replace procedure @.leasehold_v4_revoke(
    p_ns text, p_name text, p_holder text, p_now boolean,
    inout o_waiting bigint, inout o_permits bigint,
    inout o_holders text[], inout o_labels text[], inout o_tokens bigint[],
    inout o_ages bigint[], inout o_rests bigint[], inout o_revoked boolean[], inout o_asked bigint)
language plpgsql as $$
declare
    at bigint;
begin
    --@begin
    at := @.leasehold_v2_lock(p_ns, p_name);
    select array_agg(l.holder), array_agg(l.label), array_agg(l.token), array_agg(at - l.granted),
            array_agg(l.expires - at), array_agg(l.revoked)
        into o_holders, o_labels, o_tokens, o_ages, o_rests, o_revoked
        from @.leasehold_locks l
        where l.ns = p_ns and l.name = p_name and l.expires > at and (p_holder is null or l.holder = p_holder);
    o_waiting := @.leasehold_v2_ahead(p_ns, p_name, '', null, at);
    select l.permits into o_permits from @.leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0;
    if o_holders is null then return; end if;
    if not p_now then
        update @.leasehold_locks l set revoked = true
            where l.ns = p_ns and l.name = p_name and l.expires > at and (p_holder is null or l.holder = p_holder);
        return;
    end if;
    update @.leasehold_locks l set holder = null, expires = 0, revoked = false
        where l.ns = p_ns and l.name = p_name and l.expires > at and (p_holder is null or l.holder = p_holder);
    perform @.leasehold_v2_pass_on(p_ns, p_name, at);
end
$$;

-- Forgets a name's mark and its open ticks, whoever runs one: that one's lease goes on. 1: there was one.
create or replace procedure @.leasehold_v4_reset(
    p_ns text, p_name text, inout o_reset integer, inout o_asked bigint)
language plpgsql as $$
begin
    --@begin
    perform @.leasehold_v2_lasting();
    perform @.leasehold_v2_lock(p_ns, p_name);
    o_reset := (
        exists (
            select from @.leasehold_locks l
            where l.ns = p_ns and l.name = p_name and l.slot = 0 and l.mark is not null)
        or exists (select from @.leasehold_ticks t where t.ns = p_ns and t.name = p_name))::integer;
    if o_reset = 1 then perform @.leasehold_v2_forget_key(p_ns, p_name); end if;
end
$$;
