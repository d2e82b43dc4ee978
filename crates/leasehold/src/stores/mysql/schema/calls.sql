-- leases: [["name", "holder", ttl], …]. A digit for each: 1 renewed, 2 revoked, 0 gone, 3 unknown, for somebody is at it.
-- With an epoch, of those that have this tag.
create procedure leasehold_v2_renew(
    the_ns varbinary(64), leases longtext character set utf8mb4, the_epoch bigint
) sql security invoker
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
    if the_epoch is not null then
        call leasehold_v2_takes_writes();
    end if;
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
            where ns = the_ns and name = the_name and holder = the_holder and (the_epoch is null or tag = the_epoch)
            limit 1 for update skip locked;
        set is_over = 0, now_us = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
        if the_slot is null then
            select count(*) into is_locked from leasehold_locks
                where ns = the_ns and name = the_name and holder = the_holder and expires > now_us
                    and (the_epoch is null or tag = the_epoch);
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
-- 1 released, 0 not this holder's. The verdict as leasehold_v1_judge has it, or null.
create procedure leasehold_v3_release(
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
        -- What is remembered for a while is so from its end on, if it was begun.
        update leasehold_names set mark_until = now_us + mark_keep,
            forget_at = greatest(forget_at, now_us + keep + 172800000000)
            where ns = the_ns and name = the_name and mark_keep is not null and verdict <> 3;
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
-- Forgets a name's mark and its open ticks, whoever runs one: that one's lease goes on. 1: there was one.
create procedure leasehold_v4_reset(the_ns varbinary(64), the_name varbinary(200)) sql security invoker
begin
    declare had_mark, is_open tinyint default 0;
    declare exit handler for sqlexception begin rollback; resignal; end;
    set transaction isolation level read committed;
    start transaction;
    select mark is not null into had_mark from leasehold_names where ns = the_ns and name = the_name for update;
    select count(*) > 0 into is_open from leasehold_ticks where ns = the_ns and name = the_name;
    if had_mark or is_open then
        call leasehold_v2_forget_key(the_ns, the_name);
    end if;
    commit;
    select greatest(had_mark, is_open);
end
//
