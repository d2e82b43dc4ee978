-- Times are microseconds since 1970 in UTC, by the server's clock: no time zone has a say in them.

create table if not exists @.leasehold_locks(
    ns text collate "C" not null,
    name text collate "C" not null,
    slot bigint not null,              -- of the permits; the first is there for each name, and says what holds for all
    holder text collate "C",           -- null: free, or with an end in the future kept after a release
    label text not null default '',
    token bigint not null default 0,
    granted bigint not null default 0,
    expires bigint not null default 0,
    revoked boolean not null default false,
    -- From here on in the first slot only.
    permits bigint not null default 1,
    mark bigint,                       -- the newest tick that was claimed, milliseconds since 1970; only grows
    keep bigint,                       -- how long a key is remembered after its last use
    key_ends bigint,                   -- until when it is
    kept bigint not null default 0,    -- how long the name is
    forget_at bigint not null default 0,
    tag bigint,                        -- of each slot: under which route it was granted; null: under none
    primary key(ns, name, slot)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- Version 1 had no tags. It needs the table for itself, for an instant: whoever waits for that holds up all locks. What somebody
-- has dropped since is not put back: leases would lose theirs.
do $$ begin
    if not exists (select from @.leasehold_schema where version > 1) and not exists (select from pg_attribute where attrelid = '@.leasehold_locks'::regclass and attname = 'tag') then
        perform set_config('lock_timeout', '1s', true);
        alter table @.leasehold_locks add column tag bigint;
    end if;
end $$;

create table if not exists @.leasehold_waiters(
    ns text collate "C" not null,
    name text collate "C" not null,
    holder text collate "C" not null,
    label text not null,
    client text collate "C" not null,  -- which process waits, so that only that one is woken; '': it looks by itself
    ticket bigint not null,
    seen bigint not null,
    sent bigint,                       -- null: not to be handed the lock
    ttl bigint not null,
    primary key(ns, name, holder)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

create table if not exists @.leasehold_ticks(
    ns text collate "C" not null,
    name text collate "C" not null,
    tick bigint not null,              -- claimed and not finished
    holder text collate "C",           -- null: whoever had it never began
    attempts integer not null,
    once boolean not null,             -- whether it was promised to run once at most
    primary key(ns, name, tick)
);

-- Which store has the leases, where this one is the arbiter of a fallback.
create table if not exists @.leasehold_routes(
    ns text collate "C" not null primary key,
    epoch bigint not null,
    incarnation text collate "C",      -- of the primary to which it leads; null: here
    not_before bigint,                 -- from when on it is in force; null: it is not armed
    lease bigint not null,
    drift bigint not null,             -- parts per million
    max_ttl bigint not null,
    identity text collate "C" not null, -- which store the primary is
    patience bigint not null,
    complained bigint,                 -- when somebody last could not reach it
    floor bigint                       -- ticks up to here are over, milliseconds since 1970: data was lost
) with (fillfactor = 50);

-- Only where one is missing: `if not exists` would wait for whoever writes to the table, and hold up all who come later.
do $$ begin
    if to_regclass('@.leasehold_forget') is null then
        create index leasehold_forget on @.leasehold_locks(forget_at) where slot = 0;
    end if;
    if to_regclass('@.leasehold_queue') is null then
        create index leasehold_queue on @.leasehold_waiters(ns, name, ticket, holder);
    end if;
end $$;
