create table if not exists @.leasehold_schema(
    one integer primary key check (one = 1),
    version integer not null,          -- of the tables
    oldest integer not null,           -- the oldest version of Leasehold's own that may still use them
    home text not null                 -- random: tells these tables from others of the same names
);
