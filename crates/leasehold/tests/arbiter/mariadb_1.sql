use `jobs`;
set names utf8mb4, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';
delimiter //
create table if not exists leasehold_schema(
    one tinyint not null primary key,
    version int not null,        -- of the tables
    oldest int not null,         -- the oldest version of Leasehold's own that may still use them
    home varchar(36) character set ascii not null -- of these tables, and of no others
) engine = innodb
//
-- Times are microseconds and ticks milliseconds since 1970, by the server's clock: no time zone has a say in them.
-- Only grants, verdicts and operators lock a row of this table; it is the mutex of its name.
create table if not exists leasehold_names(
    ns varbinary(64) not null, name varbinary(200) not null,
    permits int not null,        -- as the last grant said
    token bigint not null,       -- the last that was given out; of the name '', by all names that are forgotten
    mark bigint,                 -- the newest tick that was claimed; only grows
    mark_keep bigint,            -- of a key: for how long its mark counts after its last use
    mark_until bigint,
    keep bigint not null,        -- how long the name is remembered after its last use
    forget_at bigint not null,
    primary key(ns, name), key leasehold_forget(forget_at)
) engine = innodb default character set binary
//
-- All that a renewal touches.
create table if not exists leasehold_locks(
    ns varbinary(64) not null, name varbinary(200) not null,
    slot int not null,           -- of the permits
    holder varbinary(32),        -- null: free, or with an end in the future kept after a release
    label varchar(255) character set utf8mb4 not null,
    granted bigint not null,
    expires bigint not null,
    revoked tinyint not null,
    primary key(ns, name, slot)
) engine = innodb default character set binary
//
-- What a fence locks, and with it nothing that a renewal or a release touches.
create table if not exists leasehold_fence(
    ns varbinary(64) not null, name varbinary(200) not null,
    slot int not null,
    token bigint not null,       -- of the slot's last grant
    primary key(ns, name, slot)
) engine = innodb default character set binary
//
create table if not exists leasehold_waiters(
    ns varbinary(64) not null, name varbinary(200) not null,
    holder varbinary(32) not null,
    ticket bigint not null,
    seen bigint not null,
    primary key(ns, name, holder)
) engine = innodb default character set binary
//
create table if not exists leasehold_ticks(
    ns varbinary(64) not null, name varbinary(200) not null,
    tick bigint not null,        -- claimed and not finished
    holder varbinary(32),        -- null: whoever had it never began
    attempts int not null,
    once tinyint not null,       -- whether it was promised to run once at most
    primary key(ns, name, tick)
) engine = innodb default character set binary
//
-- Which kind of lock a namespace has: lease or advisory. Two kinds would not see one another's holders.
create table if not exists leasehold_modes(
    ns varbinary(64) not null primary key,
    mode varbinary(16) not null
) engine = innodb default character set binary
//
-- The tokens of session locks. MariaDB has sequences, which need no commit to the disk for each.
/*M!100300 create sequence if not exists leasehold_tokens engine = innodb */
/*!80000 create table if not exists leasehold_tokens(one tinyint not null primary key, token bigint not null) */
//
drop procedure if exists leasehold_v1_told
//
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
drop procedure if exists leasehold_v1_free_slot
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
drop procedure if exists leasehold_v1_judge
//
-- What a holder says at its end, which counts late, too: 1 done, 2 failed, 3 not started.
create procedure leasehold_v1_judge(
    the_ns varbinary(64), the_name varbinary(200), the_holder varbinary(32), verdict int,
    the_tick bigint
) sql security invoker
begin
    if verdict = 1 then
        delete from leasehold_ticks where ns = the_ns and name = the_name and tick = the_tick;
    elseif verdict = 2 then
        delete from leasehold_ticks where ns = the_ns and name = the_name and holder = the_holder and once = 1;
    else
        update leasehold_ticks set holder = null, attempts = greatest(attempts - 1, 0)
            where ns = the_ns and name = the_name and holder = the_holder;
    end if;
end
//
drop procedure if exists leasehold_v1_forget
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
drop procedure if exists leasehold_v1_acquire
//
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
drop procedure if exists leasehold_v1_renew
//
-- leases: [["name", "holder", ttl], …]. A digit for each: 1 renewed, 2 revoked, 0 gone, 3 unknown, for somebody is at it.
create procedure leasehold_v1_renew(the_ns varbinary(64), leases longtext character set utf8mb4) sql security invoker
begin
    declare now_us, the_ttl, ends bigint;
    declare the_name varbinary(200);
    declare the_holder varbinary(32);
    declare the_slot, is_revoked, is_locked int;
    declare is_over tinyint default 0;
    declare answers text character set ascii default '';
    declare each_lease cursor for
        select j.name, j.holder, j.ttl from json_table(leases, '$[*]' columns(
            nth for ordinality,
            name varchar(200) character set utf8mb4 path '$[0]',
            holder varchar(32) character set utf8mb4 path '$[1]',
            ttl bigint path '$[2]')) j order by j.nth;
    declare continue handler for not found set is_over = 1;
    declare exit handler for sqlexception begin rollback; resignal; end;
    set transaction isolation level read committed;
    start transaction;
    open each_lease;
    renew: loop
        fetch each_lease into the_name, the_holder, the_ttl;
        if is_over then
            leave renew;
        end if;
        set the_slot = null;
        select slot, expires, revoked into the_slot, ends, is_revoked from leasehold_locks
            where ns = the_ns and name = the_name and holder = the_holder limit 1 for update skip locked;
        set is_over = 0, now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
        if the_slot is null then
            select count(*) into is_locked from leasehold_locks
                where ns = the_ns and name = the_name and holder = the_holder and expires > now_us;
            set answers = concat(answers, if(is_locked, '3', '0'));
        elseif ends <= now_us then
            set answers = concat(answers, '0');
        elseif is_revoked then
            set answers = concat(answers, '2');
        else
            update leasehold_locks set expires = greatest(ends, now_us + the_ttl)
                where ns = the_ns and name = the_name and slot = the_slot;
            set answers = concat(answers, '1');
        end if;
    end loop;
    close each_lease;
    commit;
    select answers;
end
//
drop procedure if exists leasehold_v1_release
//
-- 1 released, 0 not this holder's. The verdict as leasehold_v1_judge has it, or null.
create procedure leasehold_v1_release(
    the_ns varbinary(64), the_name varbinary(200), the_holder varbinary(32), keep_for bigint,
    verdict int, the_tick bigint
) sql security invoker
begin
    declare now_us bigint default timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    declare is_known tinyint default 0;
    declare freed int;
    declare exit handler for sqlexception begin rollback; resignal; end;
    if verdict is not null then
        set transaction isolation level read committed;
        start transaction;
        select 1 into is_known from leasehold_names where ns = the_ns and name = the_name for update;
        set now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
        call leasehold_v1_judge(the_ns, the_name, the_holder, verdict, the_tick);
        -- What is remembered for a while is so from its end on.
        update leasehold_names set mark_until = now_us + mark_keep,
            forget_at = greatest(forget_at, now_us + keep + 172800000000)
            where ns = the_ns and name = the_name and mark_keep is not null;
    end if;
    if verdict is null then
        set transaction isolation level read committed;
    end if;
    update leasehold_locks set holder = null, expires = now_us + keep_for, revoked = 0
        where ns = the_ns and name = the_name and holder = the_holder and expires > now_us;
    set freed = row_count();
    if verdict is not null then
        commit;
    end if;
    select freed;
end
//
drop procedure if exists leasehold_v1_leave
//
-- Out of the queue; what was granted meanwhile is free again, its work never begun.
create procedure leasehold_v1_leave(the_ns varbinary(64), the_name varbinary(200), the_holder varbinary(32))
sql security invoker
begin
    declare now_us bigint;
    declare is_known tinyint default 0;
    declare exit handler for sqlexception begin rollback; resignal; end;
    set transaction isolation level read committed;
    start transaction;
    select 1 into is_known from leasehold_names where ns = the_ns and name = the_name for update;
    set now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    delete from leasehold_waiters where ns = the_ns and name = the_name and holder = the_holder;
    call leasehold_v1_judge(the_ns, the_name, the_holder, 3, null);
    update leasehold_locks set holder = null, expires = now_us, revoked = 0
        where ns = the_ns and name = the_name and holder = the_holder and expires > now_us;
    commit;
    select 1;
end
//
drop procedure if exists leasehold_v1_revoke
//
-- As leasehold_v1_list, of those that were hit, as they were. Without a holder all are meant.
create procedure leasehold_v1_revoke(
    the_ns varbinary(64), the_name varbinary(200), the_holder varbinary(32), is_now tinyint
) sql security invoker
begin
    declare now_us bigint;
    declare waiting int;
    declare agreed int default 1;
    declare exit handler for sqlexception begin rollback; resignal; end;
    set transaction isolation level read committed;
    start transaction;
    select permits into agreed from leasehold_names where ns = the_ns and name = the_name for update;
    set now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    select count(*) into waiting from leasehold_waiters
        where ns = the_ns and name = the_name and seen between now_us - 999999 and now_us + 1000000;
    select l.name, agreed, waiting, l.holder, l.label, coalesce(f.token, 0), greatest(now_us - l.granted, 0),
        greatest(l.expires - now_us, 0), l.revoked
        from leasehold_locks l left join leasehold_fence f on f.ns = l.ns and f.name = l.name and f.slot = l.slot
        where l.ns = the_ns and l.name = the_name and l.expires > now_us
            and (the_holder is null or l.holder = the_holder);
    if is_now then
        update leasehold_locks set holder = null, expires = now_us, revoked = 0
            where ns = the_ns and name = the_name and expires > now_us
                and (the_holder is null or holder = the_holder);
    else
        update leasehold_locks set revoked = 1
            where ns = the_ns and name = the_name and expires > now_us
                and (the_holder is null or holder = the_holder);
    end if;
    commit;
end
//
drop procedure if exists leasehold_v1_inspect
//
-- As leasehold_v1_told, of a name that may be free.
create procedure leasehold_v1_inspect(the_ns varbinary(64), the_name varbinary(200)) sql security invoker
begin
    declare now_us bigint default timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    declare waiting int;
    declare agreed int;
    if @@global.read_only then
        -- It would be shown as it once was.
        signal sqlstate 'HY000' set mysql_errno = 1290, message_text = 'a server that is read_only follows another';
    end if;
    select permits into agreed from leasehold_names where ns = the_ns and name = the_name;
    select count(*) into waiting from leasehold_waiters
        where ns = the_ns and name = the_name and seen between now_us - 999999 and now_us + 1000000;
    call leasehold_v1_told(the_ns, the_name, now_us, waiting, null, agreed);
end
//
drop procedure if exists leasehold_v1_list
//
-- Name, permits, waiting, and as leasehold_v1_told the holders, of all names that are held, kept or waited for. Of one
-- that nobody has, all that had it. Looks at all names, but only once.
create procedure leasehold_v1_list(the_ns varbinary(64)) sql security invoker
begin
    declare now_us bigint default timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    if @@global.read_only then
        -- It would be shown as it once was.
        signal sqlstate 'HY000' set mysql_errno = 1290, message_text = 'a server that is read_only follows another';
    end if;
    select l.name, coalesce(n.permits, 1), (select count(*) from leasehold_waiters w
            where w.ns = the_ns and w.name = l.name and w.seen between now_us - 999999 and now_us + 1000000),
        l.holder, l.label, coalesce(f.token, 0), greatest(now_us - l.granted, 0), greatest(l.expires - now_us, 0), l.revoked
        from leasehold_locks l
        left join leasehold_names n on n.ns = l.ns and n.name = l.name
        left join leasehold_fence f on f.ns = l.ns and f.name = l.name and f.slot = l.slot
        where l.ns = the_ns and (l.expires > now_us or (
            exists(select 1 from leasehold_waiters v
                where v.ns = the_ns and v.name = l.name and v.seen between now_us - 999999 and now_us + 1000000)
            and not exists(select 1 from leasehold_locks o
                where o.ns = the_ns and o.name = l.name and o.expires > now_us)))
    union all
    select w.name, 1, count(*), null, '', 0, 0, 0, 0 from leasehold_waiters w
        where w.ns = the_ns and w.seen between now_us - 999999 and now_us + 1000000
            and not exists(select 1 from leasehold_locks l where l.ns = the_ns and l.name = w.name)
        group by w.name
    order by 1;
end
//
insert into leasehold_schema(one, version, oldest, home) values(1, 1, 1, uuid()) on duplicate key update version = 1, oldest = 1
//
delimiter ;
