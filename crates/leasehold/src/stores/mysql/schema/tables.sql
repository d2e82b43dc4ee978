-- Times are microseconds and ticks milliseconds since 1970, by the server's clock: no time zone has a say in them.
-- Only grants, verdicts and operators lock a row of this table; it is the mutex of its name.
create table if not exists leasehold_names(
    ns varbinary(64) not null, name varbinary(200) not null,
    permits int not null,        -- as the last grant said
    token bigint not null,       -- the last that was given out, without its epoch; of the name '', by all names that are forgotten
    mark bigint,                 -- the newest tick that was claimed; only grows
    mark_keep bigint,            -- of a key: for how long its mark counts after its last use
    mark_until bigint,
    keep bigint not null,        -- how long the name is remembered after its last use
    forget_at bigint not null,
    epoch bigint,                -- the largest of a token; null: none had one
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
    tag bigint,                  -- under which route it was granted; null: under none
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
-- Which store has the leases, where this one is the arbiter of a fallback.
create table if not exists leasehold_routes(
    ns varbinary(64) not null primary key,
    epoch bigint not null,
    incarnation varbinary(1024), -- of the primary to which it leads; null: here
    not_before bigint,           -- from when on it is in force; null: it is not armed
    lease bigint not null,
    drift bigint not null,       -- parts per million
    max_ttl bigint not null,
    identity varbinary(4096) not null, -- which store the primary is
    patience bigint not null,
    complained bigint,           -- when somebody last could not reach it
    floor bigint                 -- ticks up to here are over: data was lost
) engine = innodb default character set binary
//
-- What is kept for people, and decides nothing. Times are milliseconds here.
create table if not exists leasehold_notes(
    ns varbinary(64) not null, name varbinary(200) not null, -- empty: about no lock
    sort varbinary(16) not null,
    id varbinary(200) not null,
    written bigint not null,
    ends bigint not null,
    said mediumblob not null,
    primary key(ns, sort, name, id),
    key leasehold_newest(ns, sort, name, written desc, id),
    key leasehold_outdated(ends)
) engine = innodb default character set binary
//
-- Tables of version 1 had no tags. MySQL can't add a column only if it isn't there. What somebody has dropped since is not put back:
-- leases would lose theirs, and tokens go back.
set @leasehold = (select if(count(*) > 0 or exists(select 1 from leasehold_schema where version > 1), 'do 0', 'alter table leasehold_locks add column tag bigint')
    from information_schema.columns
    where table_schema = database() and table_name = 'leasehold_locks' and column_name = 'tag')
//
prepare leasehold from @leasehold
//
execute leasehold
//
deallocate prepare leasehold
//
set @leasehold = (select if(count(*) > 0 or exists(select 1 from leasehold_schema where version > 1), 'do 0', 'alter table leasehold_names add column epoch bigint')
    from information_schema.columns
    where table_schema = database() and table_name = 'leasehold_names' and column_name = 'epoch')
//
prepare leasehold from @leasehold
//
execute leasehold
//
deallocate prepare leasehold
//
