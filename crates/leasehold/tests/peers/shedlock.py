"""A worker of ShedLock's: the protocol of its JDBC provider, with the statements that it sends.

Java itself is not needed for it: what another process sees of a service are these statements, in transactions of their own.
`usingDbTime` is as it says; otherwise the time is that of this process in a time zone, as a service without it writes it.
"""

import datetime
import os
import socket
import time
import urllib.parse
import zoneinfo

import pg8000.dbapi
import pymysql

PG_NOW = "timezone('utc', CURRENT_TIMESTAMP)"
PG_UNTIL = PG_NOW + " + make_interval(secs => cast(:ttl as double precision))"
MY_NOW = "UTC_TIMESTAMP(3)"
MY_UNTIL = f"TIMESTAMPADD(MICROSECOND, :ttl, {MY_NOW})"

INTO = "INTO shedlock(name, lock_until, locked_at, locked_by)"
CONFLICT = " ON CONFLICT (name) DO UPDATE SET lock_until = {until}, locked_at = {now}, locked_by = :by WHERE shedlock.name = :name AND shedlock.lock_until <= {now}"
UPDATE = "UPDATE shedlock SET lock_until = {until}, locked_at = {now}, locked_by = :by WHERE name = :name AND lock_until <= {now}"
EXTEND = "UPDATE shedlock SET lock_until = {until} WHERE name = :name AND locked_by = :by AND lock_until > {now}"
PG_UNLOCK = "UPDATE shedlock SET lock_until = CASE WHEN locked_at > {now} THEN locked_at ELSE {now} END WHERE name = :name AND locked_by = :by"
MY_UNLOCK = "UPDATE shedlock SET lock_until = IF(locked_at > {now}, locked_at, {now}) WHERE name = :name AND locked_by = :by"
APP_UNLOCK = "UPDATE shedlock SET lock_until = {now} WHERE name = :name AND locked_by = :by"


class ShedLock:
    def __init__(self, url, zone=None):
        url = urllib.parse.urlsplit(url)
        self.is_postgres = url.scheme.startswith("postgres")
        database, user, password = url.path.strip("/"), url.username, url.password
        if self.is_postgres:
            self.db = pg8000.dbapi.connect(user, url.hostname, database, url.port, password)
            pg8000.dbapi.paramstyle = "named"
            self.db.autocommit = True
        else:
            self.db = pymysql.connect(
                host=url.hostname, port=url.port, user=user, password=password, database=database,
                autocommit=True,
                # Connector/J counts rows that were found, also where nothing changes, as within the same millisecond.
                client_flag=pymysql.constants.CLIENT.FOUND_ROWS,
            )
        self.zone = zone and zoneinfo.ZoneInfo(zone)
        self.by = f"{socket.gethostname()}-{os.getpid()}"
        self.known = set()  # ShedLock's LockRecordRegistry
        if self.zone:
            self.now, self.until, self.unlock = ":now", ":until", APP_UNLOCK
        elif self.is_postgres:
            self.now, self.until, self.unlock = PG_NOW, PG_UNTIL, PG_UNLOCK
        else:
            self.now, self.until, self.unlock = MY_NOW, MY_UNTIL, MY_UNLOCK

    def insert(self):
        values = "VALUES(:name, {until}, {now}, :by)"
        return f"INSERT {INTO} {values}{CONFLICT}" if self.is_postgres else f"INSERT IGNORE {INTO} {values}"

    def run(self, statement, ttl=0):
        statement = statement.format(now=self.now, until=self.until)
        now = datetime.datetime.now(self.zone or datetime.timezone.utc).replace(tzinfo=None)
        until = now + datetime.timedelta(milliseconds=ttl)
        ttl = ttl / 1000 if self.is_postgres else ttl * 1000
        given = {"name": self.name, "by": self.by, "ttl": ttl, "now": now, "until": until}
        cursor = self.db.cursor()
        if self.is_postgres:
            cursor.execute(statement, {key: given[key] for key in given if f":{key}" in statement})
        else:
            for key in given:
                statement = statement.replace(f":{key}", f"%({key})s")
            cursor.execute(statement, given)
        return cursor.rowcount == 1

    def lock(self, ttl):
        if self.name not in self.known:
            self.known.add(self.name)
            if self.run(self.insert(), ttl):
                return True
        return self.run(UPDATE, ttl)

    def acquire(self, name, ttl, wait):
        self.name, deadline = name, time.monotonic() + wait / 1000
        while not self.lock(ttl):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.003)
        return True

    def extend(self, ttl):
        return self.run(EXTEND, ttl)

    def release(self):
        return self.run(self.unlock)
