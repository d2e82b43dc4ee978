-- The turn of whoever writes to a topic, who has it until the commit: two at a time would each leave what the other has just written.
create procedure leasehold_v4_turn(
    the_ns varbinary(64), the_sort varbinary(16), the_name varbinary(200), out the_turn varchar(64) character set ascii
) sql security invoker
begin
    set the_turn = concat('leasehold ', sha1(concat_ws(' ', database(), the_ns, the_sort, the_name)));
    if not coalesce(get_lock(the_turn, 2), 0) then
        signal sqlstate '40001' set message_text = 'leasehold: others write notes of this topic, ask again';
    end if;
end
//
-- Writes notes of one topic in order, each in the place of the one with its id; then no more than the_most are left. A note is the
-- length of its id in three digits, the length of what it says in five, and both of them. Whoever brings some takes a few more away
-- that are over, whatever they are about.
create procedure leasehold_v4_note(
    the_ns varbinary(64), the_sort varbinary(16), the_name varbinary(200), the_notes longblob, the_keep bigint, the_most bigint
) sql security invoker
begin
    declare now_ms, cut bigint;
    declare id_length, said_length int;
    declare place int default 1;
    declare rest int default 8;
    declare the_id, cut_id, old_name, old_id varbinary(200);
    declare old_ns varbinary(64);
    declare old_sort varbinary(16);
    declare the_said mediumblob;
    declare turn varchar(64) character set ascii default 'leasehold';
    declare exit handler for sqlexception begin rollback; do release_lock(turn); resignal; end;

    call leasehold_v4_turn(the_ns, the_sort, the_name, turn);
    set transaction isolation level read committed;
    start transaction;
    set now_ms = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000;
    while place < length(the_notes) do
        set id_length = substr(the_notes, place, 3), said_length = substr(the_notes, place + 3, 5);
        set the_id = substr(the_notes, place + 8, id_length), the_said = substr(the_notes, place + 8 + id_length, said_length);
        set place = place + 8 + id_length + said_length, rest = rest + 2;
        insert into leasehold_notes(ns, name, sort, id, written, ends, said)
            values(the_ns, the_name, the_sort, the_id, now_ms, now_ms + the_keep, the_said)
            on duplicate key update written = now_ms, ends = now_ms + the_keep, said = the_said;
    end while;
    select written, id into cut, cut_id from leasehold_notes
        where ns = the_ns and sort = the_sort and name = the_name
        order by written desc, id limit 1 offset the_most;
    if cut is not null then
        delete from leasehold_notes
            where ns = the_ns and sort = the_sort and name = the_name
                and written <= cut and (written < cut or id >= cut_id);
    end if;
    -- Last, and past whatever somebody is at: so nobody who is waited for waits for us.
    while rest > 0 do
        set rest = rest - 1, old_id = null;
        select ns, sort, name, id into old_ns, old_sort, old_name, old_id from leasehold_notes
            where ends <= now_ms order by ends limit 1 for update skip locked;
        if old_id is null then
            set rest = 0;
        else
            delete from leasehold_notes where ns = old_ns and sort = old_sort and name = old_name and id = old_id;
        end if;
    end while;
    commit;
    do release_lock(turn);
end
//
-- The newest notes of a topic that were not written before the_since, and that come after the one of the_last and the_id: when each
-- was written, its id, and what it says.
create procedure leasehold_v4_notes(
    the_ns varbinary(64), the_sort varbinary(16), the_name varbinary(200), the_since bigint, the_last bigint,
    the_id varbinary(200), the_most bigint
) sql security invoker
begin
    declare now_ms bigint default timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000;
    -- They would be told as they once were.
    call leasehold_v2_takes_writes();
    select written, id, said from leasehold_notes
        where ns = the_ns and sort = the_sort and name = the_name and ends > now_ms
            and written >= the_since and written <= the_last and (written < the_last or id > the_id)
        order by written desc, id limit the_most;
end
//
-- Takes notes of a topic away. An id is its length in three digits, and itself.
create procedure leasehold_v4_erase(
    the_ns varbinary(64), the_sort varbinary(16), the_name varbinary(200), the_ids longblob
) sql security invoker
begin
    declare id_length int;
    declare place int default 1;
    declare the_id varbinary(200);
    declare turn varchar(64) character set ascii default 'leasehold';
    declare exit handler for sqlexception begin rollback; do release_lock(turn); resignal; end;

    call leasehold_v4_turn(the_ns, the_sort, the_name, turn);
    set transaction isolation level read committed;
    start transaction;
    while place < length(the_ids) do
        set id_length = substr(the_ids, place, 3);
        set the_id = substr(the_ids, place + 3, id_length), place = place + 3 + id_length;
        delete from leasehold_notes where ns = the_ns and sort = the_sort and name = the_name and id = the_id;
    end while;
    commit;
    do release_lock(turn);
end
//
