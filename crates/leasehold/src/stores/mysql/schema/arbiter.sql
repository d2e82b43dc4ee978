-- A server that follows another would tell what once was, and somebody with enough rights could write there.
create procedure leasehold_v2_takes_writes() sql security invoker
begin
    if @@global.read_only then
        signal sqlstate 'HY000' set mysql_errno = 1290, message_text = 'a server that is read_only follows another';
    end if;
end
//
-- Whether the route is what a request needs: 0 it leads here, has this epoch and is in force · 1 the same, and it is pending ·
-- 2 a tick may be claimed under this epoch: the latest or, while that is not in force, the one before. Locked, it stays the
-- latest until the transaction ends.
create procedure leasehold_v2_leads(
    the_ns varbinary(64), the_epoch bigint, as_what int, is_locked tinyint, out leads tinyint
) sql security invoker
begin
    declare now_us, latest, starts bigint;
    declare is_elsewhere tinyint;
    call leasehold_v2_takes_writes();
    if is_locked then
        select epoch, incarnation is not null, not_before into latest, is_elsewhere, starts
            from leasehold_routes where ns = the_ns lock in share mode;
    else
        select epoch, incarnation is not null, not_before into latest, is_elsewhere, starts
            from leasehold_routes where ns = the_ns;
    end if;
    set now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    set leads = coalesce(case as_what
        when 0 then latest = the_epoch and not is_elsewhere and starts <= now_us
        when 1 then latest = the_epoch and not is_elsewhere and starts > now_us
        else latest = the_epoch or (latest = the_epoch + 1 and (starts is null or starts > now_us))
    end, 0);
end
//
-- Ends leases of earlier routes, which are dead; what has no tag is none of a fallback's. The holder's largest tag is told,
-- as it was.
create procedure leasehold_v2_bury(
    the_ns varbinary(64), the_name varbinary(200), the_holder varbinary(32), the_epoch bigint, now_us bigint,
    out my_tag bigint
) sql security invoker
begin
    select max(if(holder = the_holder and expires > now_us, tag, null)) into my_tag from leasehold_locks
        where ns = the_ns and name = the_name for update;
    update leasehold_locks set holder = null, expires = now_us, revoked = 0
        where ns = the_ns and name = the_name and tag < the_epoch and expires > now_us;
end
//
-- Takes a lease over from where the route led before. 1 done · 8 another route, or one that is not pending · 9 the holder
-- has a lease of a later one · 11 somebody else has one · 12 it was revoked here.
create procedure leasehold_v2_carry(
    the_ns varbinary(64), the_name varbinary(200), the_holder varbinary(32),
    the_label varchar(255) character set utf8mb4, the_token bigint, the_ttl bigint, the_epoch bigint
) sql security invoker
carry: begin
    declare now_us, last_token, had_epoch, had_mark, had_mark_until, new_keep, new_forget_at, my_tag, my_end bigint;
    declare leads, is_fresh, my_revoked tinyint;
    declare agreed, my_slot, the_slot int;
    declare others int default 0;
    declare exit handler for sqlexception begin rollback; resignal; end;

    call leasehold_v2_own(the_ns, the_name, 1, null, the_epoch, 1,
        leads, is_fresh, agreed, last_token, had_epoch, had_mark, had_mark_until, new_keep, new_forget_at);
    if not leads then
        rollback;
        select 8;
        leave carry;
    end if;
    set now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    call leasehold_v2_bury(the_ns, the_name, the_holder, the_epoch, now_us, my_tag);
    select max(if(holder = the_holder, slot, null)), max(if(holder = the_holder, revoked, null)),
            max(if(holder = the_holder, expires, null)), count(if(holder = the_holder, null, 1))
        into my_slot, my_revoked, my_end, others
        from leasehold_locks where ns = the_ns and name = the_name and expires > now_us;
    if my_tag > the_epoch then
        rollback;
        select 9;
        leave carry;
    elseif my_revoked then
        rollback;
        select 12;
        leave carry;
    end if;
    set the_slot = my_slot;
    if the_slot is null and others = 0 then
        -- A fence of the last holder's may stand there.
        select slot into the_slot from leasehold_fence
            where ns = the_ns and name = the_name and slot = 0 for update skip locked;
        if the_slot is null then
            call leasehold_v1_free_slot(the_ns, the_name, 1, 0, now_us, the_slot);
        end if;
    end if;
    if others > 0 or the_slot is null then
        rollback;
        select 11;
        leave carry;
    end if;
    set last_token = null;
    select token into last_token from leasehold_fence where ns = the_ns and name = the_name and slot = the_slot;
    if not last_token <=> the_token then
        insert into leasehold_fence(ns, name, slot, token) values(the_ns, the_name, the_slot, the_token)
            on duplicate key update token = the_token;
    end if;
    insert into leasehold_locks(ns, name, slot, holder, label, granted, expires, revoked, tag)
        values(the_ns, the_name, the_slot, the_holder, the_label, now_us, now_us + the_ttl, 0, the_epoch)
        on duplicate key update holder = the_holder, label = the_label, granted = now_us,
            expires = greatest(coalesce(my_end, 0), now_us + the_ttl), revoked = 0, tag = the_epoch;
    delete from leasehold_waiters where ns = the_ns and name = the_name and holder = the_holder;
    update leasehold_names set permits = 1, epoch = greatest(coalesce(had_epoch, 0), the_epoch), keep = new_keep,
        forget_at = new_forget_at
        where ns = the_ns and name = the_name;
    if is_fresh then
        call leasehold_v1_forget(now_us);
    end if;
    commit;
    select 1;
end
//
-- The route, if there is one: epoch, incarnation, in how long it comes into force (negative: for how long it has been; null: not
-- armed), terms, patience, how long ago there was a complaint. Whoever gives it a time reads the clock before others see what it
-- writes, and who read the old row meanwhile would count on more than there is: so this waits for it.
create procedure leasehold_v2_route(the_ns varbinary(64)) sql security invoker
begin
    declare now_us, latest, starts, the_lease, the_drift, the_max_ttl, the_patience, last_complaint bigint;
    declare the_incarnation varbinary(1024);
    declare the_identity varbinary(4096);
    call leasehold_v2_takes_writes();
    select epoch, incarnation, not_before, lease, drift, max_ttl, identity, patience, complained
        into latest, the_incarnation, starts, the_lease, the_drift, the_max_ttl, the_identity, the_patience, last_complaint
        from leasehold_routes where ns = the_ns lock in share mode;
    set now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    if latest is not null then
        select latest, the_incarnation, starts - now_us, the_lease, the_drift, the_max_ttl, the_identity, the_patience,
            greatest(now_us - last_complaint, 0);
    end if;
end
//
-- Writes the first route, unless there is one.
create procedure leasehold_v2_found(
    the_ns varbinary(64), the_epoch bigint, the_incarnation varbinary(1024), the_lease bigint, the_drift bigint,
    the_max_ttl bigint, the_identity varbinary(4096)
) sql security invoker
begin
    call leasehold_v2_takes_writes();
    insert into leasehold_routes(ns, epoch, incarnation, lease, drift, max_ttl, identity, patience)
        values(the_ns, the_epoch, the_incarnation, the_lease, the_drift, the_max_ttl, the_identity, 0)
        on duplicate key update ns = the_ns;
end
//
-- Goes to the next route, if this one is the latest and has been in force for long enough: 1. It gets no time here: a commit may
-- be late, and others go on giving the old one out until then.
create procedure leasehold_v2_switch(
    the_ns varbinary(64), the_epoch bigint, the_incarnation varbinary(1024), the_dwell bigint, the_patience bigint
) sql security invoker
begin
    declare now_us, latest, starts bigint;
    declare is_due tinyint;
    declare exit handler for sqlexception begin rollback; resignal; end;
    call leasehold_v2_takes_writes();
    set transaction isolation level read committed;
    start transaction;
    select epoch, not_before into latest, starts from leasehold_routes where ns = the_ns for update;
    set now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    set is_due = coalesce(latest = the_epoch and starts <= now_us and now_us - starts >= the_dwell, 0);
    if is_due then
        update leasehold_routes
            set epoch = the_epoch + 1, incarnation = the_incarnation, not_before = null, patience = the_patience
            where ns = the_ns;
    end if;
    commit;
    select is_due;
end
//
-- Has the route come into force after a while. Whoever calls this has seen it, so it is committed.
create procedure leasehold_v2_arm(the_ns varbinary(64), the_epoch bigint, the_drain bigint) sql security invoker
begin
    declare now_us, latest, starts bigint;
    declare exit handler for sqlexception begin rollback; resignal; end;
    call leasehold_v2_takes_writes();
    set transaction isolation level read committed;
    start transaction;
    select epoch, not_before into latest, starts from leasehold_routes where ns = the_ns for update;
    set now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    if latest = the_epoch and starts is null then
        update leasehold_routes set not_before = now_us + the_drain where ns = the_ns;
    end if;
    commit;
end
//
-- Somebody can't reach the primary.
create procedure leasehold_v2_complain(the_ns varbinary(64)) sql security invoker
begin
    declare now_us bigint default timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    call leasehold_v2_takes_writes();
    update leasehold_routes set complained = now_us where ns = the_ns;
end
//
-- Data was lost: goes two epochs up, unarmed, and has all ticks count as claimed until now. Names that the backup doesn't know
-- have marks, too, and a node whose clock was fast may have claimed ahead. Keys have no time. Answers the epoch.
create procedure leasehold_v2_repair(
    the_ns varbinary(64), the_epoch bigint, the_lease bigint, the_drift bigint, the_max_ttl bigint,
    the_identity varbinary(4096)
) sql security invoker
begin
    declare now_us, latest bigint;
    declare exit handler for sqlexception begin rollback; resignal; end;
    call leasehold_v2_takes_writes();
    set transaction isolation level read committed;
    start transaction;
    insert into leasehold_routes(ns, epoch, lease, drift, max_ttl, identity, patience)
        values(the_ns, the_epoch, the_lease, the_drift, the_max_ttl, the_identity, 0)
        on duplicate key update epoch = greatest(epoch, the_epoch);
    set now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    update leasehold_routes
        set epoch = epoch + 2, not_before = null, floor = greatest(coalesce(floor, 0), (now_us + 300000000) div 1000)
        where ns = the_ns;
    delete from leasehold_ticks where ns = the_ns and tick <> 0;
    select epoch into latest from leasehold_routes where ns = the_ns;
    commit;
    select latest;
end
//
-- Claims a tick for who has the lease, wherever that is. 1 claimed: how often, the one that was given up · 8 another route ·
-- 2 to 5 as leasehold_v2_standing has it: whether it is unfinished, and the number.
create procedure leasehold_v2_tick(
    the_ns varbinary(64), the_name varbinary(200), the_holder varbinary(32), the_epoch bigint, the_tick bigint,
    is_retry tinyint, the_keep bigint,
    is_again tinyint             -- it has been, under this same grant, and the answer may have been lost
) sql security invoker
tick: begin
    declare now_us, last_token, had_epoch, had_mark, had_mark_until, new_keep, new_forget_at, the_floor, amount, gave_up bigint;
    declare leads, is_fresh, is_open tinyint;
    declare agreed, attempt int;
    declare stands int default 0;
    declare exit handler for sqlexception begin rollback; resignal; end;

    call leasehold_v2_own(the_ns, the_name, 1, the_keep, the_epoch, 2,
        leads, is_fresh, agreed, last_token, had_epoch, had_mark, had_mark_until, new_keep, new_forget_at);
    if not leads then
        rollback;
        select 8, null, null;
        leave tick;
    end if;
    set now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    if is_again then
        select attempts into attempt from leasehold_ticks
            where ns = the_ns and name = the_name and tick = the_tick and holder = the_holder;
        if attempt is not null then
            rollback;
            select 1, attempt, null;
            leave tick;
        end if;
    end if;
    -- Whoever claims has the lease: nobody else's is alive.
    if the_tick = 0 and had_mark_until <= now_us then
        call leasehold_v2_forget_key(the_ns, the_name);
        set had_mark = null;
    end if;
    select floor into the_floor from leasehold_routes where ns = the_ns;
    call leasehold_v2_standing(the_ns, the_name, the_tick, is_retry, the_keep, had_mark, the_floor, 0, null, now_us,
        stands, amount, attempt, is_open);
    if stands > 1 then
        rollback;
        select stands, is_open, amount;
        leave tick;
    end if;
    set attempt = attempt + 1;
    call leasehold_v2_claim(the_ns, the_name, the_holder, the_tick, is_retry, the_keep, had_mark, attempt, is_open, now_us,
        gave_up);
    update leasehold_names set keep = new_keep, forget_at = new_forget_at where ns = the_ns and name = the_name;
    if is_fresh then
        call leasehold_v1_forget(now_us);
    end if;
    commit;
    select 1, attempt, gave_up;
end
//
-- How a tick stands, if this is who has the lease: as leasehold_v2_standing has it, whether it is unfinished, and the number.
create procedure leasehold_v2_stands(
    the_ns varbinary(64), the_name varbinary(200), the_tick bigint, is_retry tinyint, the_keep bigint,
    the_alive varbinary(32)
) sql security invoker
begin
    declare now_us, had_mark, had_mark_until, the_floor, amount bigint;
    declare stands, attempt int;
    declare is_open tinyint;
    declare running int default 0;
    call leasehold_v2_takes_writes();
    select mark, mark_until into had_mark, had_mark_until from leasehold_names where ns = the_ns and name = the_name;
    select floor into the_floor from leasehold_routes where ns = the_ns;
    set now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    if the_tick = 0 and had_mark_until <= now_us then
        select count(*) into running from leasehold_ticks where ns = the_ns and name = the_name and holder = the_alive;
        if running = 0 then
            set had_mark = null;
        end if;
    end if;
    call leasehold_v2_standing(the_ns, the_name, the_tick, is_retry, the_keep, had_mark, the_floor, 0, the_alive, now_us,
        stands, amount, attempt, is_open);
    select stands, is_open, amount;
end
//
