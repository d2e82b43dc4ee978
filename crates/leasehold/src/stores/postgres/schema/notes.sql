-- What is kept for people, and decides nothing. Times are milliseconds here.
create table if not exists @.leasehold_notes(
    ns text collate "C" not null,
    sort text collate "C" not null,
    name text collate "C" not null,    -- empty: about no lock
    id text collate "C" not null,
    written bigint not null,
    ends bigint not null,
    said bytea not null,               -- UTF-8, whatever the database has; and a text can't have all of it
    primary key(ns, sort, name, id)
);

do $$ begin
    if to_regclass('@.leasehold_newest') is null then
        create index leasehold_newest on @.leasehold_notes(ns, sort, name, written desc, id);
    end if;
    if to_regclass('@.leasehold_outdated') is null then
        create index leasehold_outdated on @.leasehold_notes(ends);
    end if;
end $$;

-- Who writes to a topic does so alone until the commit: two at a time would each leave what the other has just written.
create or replace function @.leasehold_v3_topic(p_ns text, p_sort text, p_name text)
returns void language plpgsql volatile as $$
begin
    perform pg_advisory_xact_lock(
        hashtextextended(concat_ws(' ', 'leasehold notes', p_ns, p_sort, p_name), 0));
end
$$;

-- Writes notes of one topic in order, each in the place of the one with its id; then no more than `p_most` are left. Whoever
-- brings some takes a few more away that are over, whatever they are about. Answers how many it wrote.
create or replace procedure @.leasehold_v4_note(
    p_ns text, p_sort text, p_name text, p_ids text[], p_said bytea[], p_keep bigint, p_most bigint,
    inout o_written integer, inout o_asked bigint)
language plpgsql as $$
declare
    at bigint;
    note record;
begin
    --@begin
    perform @.leasehold_v3_topic(p_ns, p_sort, p_name);
    at := @.leasehold_v2_now() / 1000;
    o_written := cardinality(p_ids);
    for note in select u.id, u.said from unnest(p_ids, p_said) with ordinality as u(id, said, nth) order by u.nth loop
        insert into @.leasehold_notes(ns, sort, name, id, written, ends, said)
            values (p_ns, p_sort, p_name, note.id, at, at + p_keep, note.said)
            on conflict (ns, sort, name, id) do update set written = at, ends = at + p_keep, said = note.said;
    end loop;
    delete from @.leasehold_notes n where n.ctid = any(array(
        select o.ctid from @.leasehold_notes o
        where o.ns = p_ns and o.sort = p_sort and o.name = p_name
        order by o.written desc, o.id offset p_most));
    -- Last, and past whatever somebody is at: so nobody who is waited for waits for us.
    delete from @.leasehold_notes n where n.ctid = any(array(
        select o.ctid from @.leasehold_notes o where o.ends <= at
        order by o.ends limit 2 * o_written + 8 for update skip locked));
end
$$;

-- The newest notes of a topic that were not written before `p_since`, and that come after the one of `p_last` and `p_id`.
create or replace function @.leasehold_v3_notes(
    p_ns text, p_sort text, p_name text, p_since bigint, p_last bigint, p_id text, p_most bigint)
returns table(written bigint, id text, said bytea)
language plpgsql volatile as $$
#variable_conflict use_column
declare
    at bigint := @.leasehold_v2_now() / 1000;
begin
    if pg_is_in_recovery() then
        -- They would be told as they once were.
        raise exception 'a standby takes no writes' using errcode = 'read_only_sql_transaction';
    end if;
    return query
        select n.written, n.id, n.said from @.leasehold_notes n
        where n.ns = p_ns and n.sort = p_sort and n.name = p_name and n.ends > at
            and n.written >= p_since and n.written <= p_last and (n.written < p_last or n.id > p_id)
        order by n.written desc, n.id limit p_most;
end
$$;

-- Takes notes of a topic away. Answers how many.
create or replace procedure @.leasehold_v4_erase(
    p_ns text, p_sort text, p_name text, p_ids text[], inout o_erased bigint, inout o_asked bigint)
language plpgsql as $$
begin
    --@begin
    perform @.leasehold_v3_topic(p_ns, p_sort, p_name);
    delete from @.leasehold_notes n
        where n.ns = p_ns and n.sort = p_sort and n.name = p_name and n.id = any(p_ids);
    get diagnostics o_erased = row_count;
end
$$;
