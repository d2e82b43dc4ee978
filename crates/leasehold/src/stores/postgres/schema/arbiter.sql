-- Whether this is the route's epoch, it leads here, and is pending, or in force.
create or replace function @.leasehold_v2_leads_here(p_ns text, p_epoch bigint, p_pending boolean)
returns boolean language plpgsql volatile as $$
begin
    return exists (
        select from @.leasehold_routes r
        where r.ns = p_ns and r.epoch = p_epoch and r.incarnation is null
            and (r.not_before > @.leasehold_v2_now()) = p_pending);
end
$$;

-- Leases of earlier routes are dead. What has no tag is none of a fallback's.
create or replace function @.leasehold_v2_bury(p_ns text, p_name text, p_epoch bigint)
returns void language plpgsql volatile as $$
begin
    update @.leasehold_locks l set holder = null, expires = 0, revoked = false
        where l.ns = p_ns and l.name = p_name and l.tag < p_epoch and l.expires > 0;
end
$$;

-- Takes a lease over from where the route led before. 1 done · 8 another route, or one that is not pending · 9 the holder
-- has a lease of a later one · 11 somebody else has one · 12 it was revoked here.
create or replace procedure @.leasehold_v4_carry(
    p_ns text, p_name text, p_holder text, p_label text, p_token bigint, p_ttl bigint, p_epoch bigint,
    inout o_outcome integer, inout o_asked bigint)
language plpgsql as $$
declare
    at bigint;
    one @.leasehold_locks%rowtype;
    fenced boolean;
    own_tag bigint; refused boolean; ends bigint; others bigint;
begin
    --@begin
    o_outcome := 8;
    if not @.leasehold_v2_leads_here(p_ns, p_epoch, true) then return; end if;
    fenced := @.leasehold_v2_own(p_ns, p_name);
    -- Once more, since that may have taken a while: from its time on, the route's claims come first.
    if not @.leasehold_v2_leads_here(p_ns, p_epoch, true) then return; end if;
    at := @.leasehold_v2_now();
    select * into one from @.leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0;
    select max(l.tag) filter (where l.holder = p_holder),
            bool_or(l.revoked) filter (where l.holder = p_holder and not l.dead),
            max(l.expires) filter (where l.holder = p_holder and not l.dead),
            count(*) filter (where l.holder is distinct from p_holder and not l.dead)
        into own_tag, refused, ends, others
        from (
            select o.holder, o.tag, o.revoked, o.expires, coalesce(o.tag < p_epoch, false) as dead
            from @.leasehold_locks o where o.ns = p_ns and o.name = p_name and o.expires > at) l;
    o_outcome := case
        when own_tag > p_epoch then 9
        when refused then 12
        when others > 0 or (fenced and ends is null) then 11
        else 1
    end;
    if o_outcome <> 1 then return; end if;
    update @.leasehold_locks l
        set holder = p_holder, label = p_label, token = p_token, granted = at, expires = greatest(ends, at + p_ttl),
            revoked = false, permits = 1, tag = p_epoch
        where l.ns = p_ns and l.name = p_name and l.slot = 0;
    update @.leasehold_locks l set holder = null, expires = 0
        where l.ns = p_ns and l.name = p_name and l.slot > 0 and l.expires > 0;
    perform @.leasehold_v2_trim(p_ns, p_name, 1, at);
    delete from @.leasehold_waiters w where w.ns = p_ns and w.name = p_name and w.holder = p_holder;
    perform @.leasehold_v2_remember(p_ns, p_name, one.kept, one.forget_at, 0, at);
end
$$;

-- What keeps a route from being read while it is given a time.
create or replace function @.leasehold_v2_route_key(p_ns text) returns bigint language sql immutable
as $$ select hashtextextended('leasehold route ' || p_ns, 0) $$;

-- The route, if there is one. o_wait: in how long it comes into force; negative, for how long it has been; null: not armed.
create or replace procedure @.leasehold_v4_route(
    p_ns text,
    inout o_epoch bigint, inout o_incarnation text, inout o_wait bigint, inout o_lease bigint, inout o_drift bigint,
    inout o_max_ttl bigint, inout o_identity text, inout o_patience bigint, inout o_complained bigint,
    inout o_asked bigint)
language plpgsql as $$
declare
    at bigint;
    route @.leasehold_routes%rowtype;
begin
    --@begin
    -- Whoever gives it a time reads the clock, and its commit may be late: who read the old row meanwhile, later than that
    -- clock, would count on more than there is.
    perform pg_advisory_xact_lock_shared(@.leasehold_v2_route_key(p_ns));
    select * into route from @.leasehold_routes r where r.ns = p_ns;
    at := @.leasehold_v2_now();
    o_epoch := route.epoch; o_incarnation := route.incarnation; o_wait := route.not_before - at;
    o_lease := route.lease; o_drift := route.drift; o_max_ttl := route.max_ttl; o_identity := route.identity;
    o_patience := route.patience; o_complained := at - route.complained;
end
$$;

-- Writes the first route, unless there is one.
create or replace procedure @.leasehold_v4_found(
    p_ns text, p_epoch bigint, p_incarnation text, p_lease bigint, p_drift bigint, p_max_ttl bigint, p_identity text,
    inout o_found integer, inout o_asked bigint)
language plpgsql as $$
begin
    --@begin
    perform @.leasehold_v2_lasting();
    insert into @.leasehold_routes(ns, epoch, incarnation, lease, drift, max_ttl, identity, patience)
        values (p_ns, p_epoch, p_incarnation, p_lease, p_drift, p_max_ttl, p_identity, 0)
        on conflict (ns) do nothing;
    o_found := found::integer;
end
$$;

-- Goes to the next route, if this one is the latest and has been in force for long enough. Gives it no time: a commit may
-- be late, and others go on giving the old one out until then.
create or replace procedure @.leasehold_v4_switch(
    p_ns text, p_from bigint, p_incarnation text, p_dwell bigint, p_patience bigint, inout o_switched integer,
    inout o_asked bigint)
language plpgsql as $$
begin
    --@begin
    perform @.leasehold_v2_lasting();
    update @.leasehold_routes r
        set epoch = r.epoch + 1, incarnation = p_incarnation, not_before = null, patience = p_patience
        where r.ns = p_ns and r.epoch = p_from and r.not_before <= @.leasehold_v2_now() - p_dwell;
    o_switched := found::integer;
end
$$;

-- Has the route come into force after a while. Whoever calls this has seen it, so it is committed.
create or replace procedure @.leasehold_v4_arm(
    p_ns text, p_epoch bigint, p_drain bigint, inout o_armed integer, inout o_asked bigint)
language plpgsql as $$
begin
    --@begin
    perform @.leasehold_v2_lasting();
    perform pg_advisory_xact_lock(@.leasehold_v2_route_key(p_ns));
    update @.leasehold_routes r set not_before = @.leasehold_v2_now() + p_drain
        where r.ns = p_ns and r.epoch = p_epoch and r.not_before is null;
    o_armed := found::integer;
end
$$;

-- Somebody can't reach the primary.
create or replace procedure @.leasehold_v4_complain(
    p_ns text, inout o_noted integer, inout o_asked bigint)
language plpgsql as $$
begin
    --@begin
    perform @.leasehold_v2_lasting();
    update @.leasehold_routes r set complained = @.leasehold_v2_now() where r.ns = p_ns;
    o_noted := found::integer;
end
$$;

-- Data was lost: goes two epochs up, unarmed, and has all ticks count as claimed until now. Names that the backup doesn't
-- know have marks, too, and a node whose clock was fast may have claimed ahead. Keys have no time. Answers the epoch.
create or replace procedure @.leasehold_v4_repair(
    p_ns text, p_seen bigint, p_lease bigint, p_drift bigint, p_max_ttl bigint, p_identity text, inout o_epoch bigint,
    inout o_asked bigint)
language plpgsql as $$
begin
    --@begin
    perform @.leasehold_v2_lasting();
    insert into @.leasehold_routes as r(ns, epoch, lease, drift, max_ttl, identity, patience, floor)
        values (p_ns, p_seen + 2, p_lease, p_drift, p_max_ttl, p_identity, 0, @.leasehold_v2_now() / 1000 + 300000)
        on conflict (ns) do update
        set epoch = greatest(r.epoch, p_seen) + 2, not_before = null, floor = greatest(r.floor, excluded.floor)
        returning r.epoch into o_epoch;
    delete from @.leasehold_ticks t where t.ns = p_ns and t.tick <> 0;
end
$$;

-- Whether a tick may be claimed under a route of this epoch: the latest, or while that is not in force the one before.
create or replace function @.leasehold_v2_admits_tick(p_ns text, p_epoch bigint)
returns boolean language plpgsql volatile as $$
begin
    return exists (
        select from @.leasehold_routes r
        where r.ns = p_ns
            and (r.epoch = p_epoch
                or (r.epoch = p_epoch + 1 and (r.not_before is null or r.not_before > @.leasehold_v2_now()))));
end
$$;

-- How a tick stands where leases may be in another store; p_alive: who has the one of this name, if anybody has.
create or replace function @.leasehold_v2_due(
    p_ns text, p_name text, p_tick bigint, p_retry boolean, p_keep bigint, p_alive text, at bigint,
    out o_standing integer, out o_value bigint, out o_known boolean, out o_attempts integer)
language plpgsql volatile as $$
declare
    one @.leasehold_locks%rowtype;
    latest bigint;
begin
    select * into one from @.leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0;
    if p_tick = 0 and one.key_ends <= at and not exists (
        select from @.leasehold_ticks t where t.ns = p_ns and t.name = p_name and t.holder = p_alive)
    then
        one.mark := null;
    end if;
    select s.* into o_standing, o_value, o_known, o_attempts
        from @.leasehold_v2_standing(p_ns, p_name, p_tick, p_retry, p_keep, one.mark, array[p_alive], at) s;
    select r.floor into latest from @.leasehold_routes r where r.ns = p_ns;
    if o_standing < 4 and p_tick <> 0 and p_tick <= latest then
        o_standing := 3; o_value := latest; o_known := false;
    end if;
end
$$;

-- Claims a tick for who has the lease, wherever that is. 1 claimed, so often (o_value: the one that was given up) · 2 a
-- transaction that is open completes it · 8 another route · else as acquire says.
create or replace procedure @.leasehold_v4_tick(
    p_ns text, p_name text, p_holder text, p_epoch bigint, p_tick bigint, p_retry boolean, p_keep bigint,
    p_again boolean, inout o_outcome integer, inout o_attempt integer, inout o_value bigint, inout o_asked bigint)
language plpgsql as $$
declare
    at bigint;
    one @.leasehold_locks%rowtype;
    tick record;
begin
    --@begin
    o_outcome := 8;
    if not @.leasehold_v2_admits_tick(p_ns, p_epoch) then return; end if;
    perform @.leasehold_v2_own(p_ns, p_name);
    if not @.leasehold_v2_admits_tick(p_ns, p_epoch) then return; end if;
    perform @.leasehold_v2_lasting();
    at := @.leasehold_v2_now();
    if p_again then
        -- It has been, under this same grant, and the answer may have been lost.
        select t.attempts into o_attempt from @.leasehold_ticks t
            where t.ns = p_ns and t.name = p_name and t.tick = p_tick and t.holder = p_holder;
        if found then
            o_outcome := 1;
            return;
        end if;
    end if;
    select * into one from @.leasehold_locks l where l.ns = p_ns and l.name = p_name and l.slot = 0;
    if p_tick = 0 and one.key_ends <= at then
        if @.leasehold_v3_being_completed(p_ns, p_name, 0) then
            o_outcome := 2; -- By a transaction that goes on.
            return;
        end if;
        perform @.leasehold_v2_forget_key(p_ns, p_name);
    end if;
    -- Whoever claims has the lease: nobody else's is alive.
    select * into tick from @.leasehold_v2_due(p_ns, p_name, p_tick, p_retry, p_keep, null, at);
    if tick.o_standing > 2 then
        o_outcome := tick.o_standing; o_value := tick.o_value; o_attempt := tick.o_known::integer;
        return;
    end if;
    if tick.o_known and @.leasehold_v3_being_completed(p_ns, p_name, p_tick) then
        o_outcome := 2;
        return;
    end if;
    o_outcome := 1;
    o_attempt := coalesce(tick.o_attempts, 0) + 1;
    o_value := @.leasehold_v2_claim_tick(
        p_ns, p_name, p_holder, p_tick, p_retry, p_keep, o_attempt, tick.o_known, at);
    perform @.leasehold_v2_remember(p_ns, p_name, one.kept, one.forget_at, p_keep, at);
end
$$;

-- How a tick stands: 1 it may be claimed · 2 it is running · else as acquire says.
create or replace procedure @.leasehold_v4_stands(
    p_ns text, p_name text, p_tick bigint, p_retry boolean, p_keep bigint, p_alive text,
    inout o_outcome integer, inout o_attempt integer, inout o_value bigint, inout o_asked bigint)
language plpgsql as $$
declare
    tick record;
begin
    --@begin
    select * into tick
        from @.leasehold_v2_due(p_ns, p_name, p_tick, p_retry, p_keep, p_alive, @.leasehold_v2_now());
    o_outcome := tick.o_standing; o_value := tick.o_value; o_attempt := tick.o_known::integer;
end
$$;
