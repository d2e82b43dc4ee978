-- For programs of version 1, in place of theirs, which know no tags. This one and the next.
create procedure leasehold_v1_acquire(
    the_ns varbinary(64), the_name varbinary(200), the_holder varbinary(32),
    the_label varchar(255) character set utf8mb4, the_ttl bigint, the_permits int, the_tick bigint, is_retry tinyint,
    the_keep bigint, is_waiter tinyint, the_ticket bigint, built bigint
) sql security invoker
begin
    call leasehold_v2_acquire(the_ns, the_name, the_holder, the_label, the_ttl, the_permits, the_tick, is_retry, the_keep,
        is_waiter, the_ticket, built, null);
end
//
create procedure leasehold_v1_renew(the_ns varbinary(64), leases longtext character set utf8mb4) sql security invoker
begin
    call leasehold_v2_renew(the_ns, leases, null);
end
//
-- For programs of versions 1 and 2, where theirs is not there. It would remember a key for longer whose work was not begun.
create procedure leasehold_v1_release(
    the_ns varbinary(64), the_name varbinary(200), the_holder varbinary(32), keep_for bigint,
    verdict int, the_tick bigint
) sql security invoker
begin
    call leasehold_v3_release(the_ns, the_name, the_holder, keep_for, verdict, the_tick);
end
//
