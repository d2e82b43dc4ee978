-- Which kind of lock a namespace has: lease or advisory. Two kinds would not see one another's holders.
create table if not exists @.leasehold_modes(
    ns text collate "C" not null primary key,
    mode text not null
);

-- The tokens of session locks, which a commit to the disk for each would make slow. Never behind the clock, and ahead of
-- it by a second at the most: where it is lost, it goes on from there.
create sequence if not exists @.leasehold_tokens as bigint;

create or replace procedure @.leasehold_v4_mode(p_ns text, p_mode text, inout o_agreed text, inout o_asked bigint)
language plpgsql as $$
begin
    --@begin
    select m.mode into o_agreed from @.leasehold_modes m where m.ns = p_ns;
    if not found then
        insert into @.leasehold_modes as m(ns, mode) values (p_ns, p_mode)
            on conflict (ns) do update set mode = m.mode returning m.mode into o_agreed;
    end if;
end
$$;

-- A token for a lock that the session has just got, where the sequence is behind the clock: from then on it is a second
-- ahead of it.
create or replace function @.leasehold_v2_token() returns bigint language plpgsql volatile as $$
declare
    least bigint := (@.leasehold_v2_now() / 1000 - 1577836800000) << 4;
begin
    perform pg_advisory_xact_lock(2879136027345790653); -- one at a time
    if (select last_value from @.leasehold_tokens) < least then
        perform setval('@.leasehold_tokens', least + 16000);
    end if;
    return nextval('@.leasehold_tokens');
end
$$;
