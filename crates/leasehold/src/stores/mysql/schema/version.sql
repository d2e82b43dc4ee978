create table if not exists leasehold_schema(
    one tinyint not null primary key,
    version int not null,        -- of the tables
    oldest int not null,         -- the oldest version of Leasehold's own that may still use them
    home varchar(36) character set ascii not null -- of these tables, and of no others
) engine = innodb
//
