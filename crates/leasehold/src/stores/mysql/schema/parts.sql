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
