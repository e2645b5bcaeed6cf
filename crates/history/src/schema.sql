-- Schema 1 of the accounting records. Times are milliseconds since 1970.

-- One row.
CREATE TABLE meta (
    version INTEGER NOT NULL,
    -- Identity of this database among those that are collected in one place.
    source TEXT NOT NULL,
    -- Number of the last change; each changed row of `reservation`, `usage` and `gap` has that of its change, and no other has it.
    revision INTEGER NOT NULL
) STRICT;

INSERT INTO meta VALUES (1, lower(hex(randomblob(16))), 0);

-- One row for each start of a daemon.
CREATE TABLE run (
    run INTEGER PRIMARY KEY AUTOINCREMENT,
    node TEXT NOT NULL,
    started_ms INTEGER NOT NULL
) STRICT;

-- How far each journal is applied.
CREATE TABLE journal (
    journal INTEGER PRIMARY KEY,
    segment INTEGER NOT NULL,
    position INTEGER NOT NULL,
    run INTEGER NOT NULL
) STRICT;

CREATE TABLE reservation (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    node TEXT NOT NULL,
    protocol TEXT NOT NULL,
    link TEXT NOT NULL,
    destination TEXT NOT NULL,
    destination_port INTEGER NOT NULL,
    ip_protocol INTEGER NOT NULL,
    dscp INTEGER,
    -- JSON, as in `earmark show reservations --json`.
    senders TEXT NOT NULL,
    style TEXT NOT NULL,
    service TEXT NOT NULL,
    -- Empty if the request names no user.
    user_name TEXT NOT NULL,
    -- `verified` or `claimed`; empty without a user.
    proof TEXT NOT NULL,
    rate_bps INTEGER NOT NULL,
    begun_ms INTEGER NOT NULL,
    -- Time of the last record about it.
    seen_ms INTEGER NOT NULL,
    -- NULL as long as it stands.
    ended_ms INTEGER,
    end_reason TEXT,
    octets INTEGER NOT NULL,
    packets INTEGER NOT NULL,
    drops INTEGER NOT NULL,
    -- What its rate would have allowed so far.
    reserved_octets INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    -- How the daemon names it: the number is negative as long as a flow of an earlier run waits to be claimed again.
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    -- Flow by which a later run finds it, and what its queue had counted when it was last read.
    flow TEXT NOT NULL,
    counted_octets INTEGER NOT NULL,
    counted_packets INTEGER NOT NULL,
    counted_drops INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX reservation_number ON reservation (run, number) WHERE ended_ms IS NULL;
CREATE INDEX reservation_flow ON reservation (node, flow) WHERE ended_ms IS NULL;
CREATE INDEX reservation_begun ON reservation (begun_ms);
CREATE INDEX reservation_ended ON reservation (ended_ms) WHERE ended_ms IS NOT NULL;
CREATE INDEX reservation_revision ON reservation (revision);

-- Use by the hour in which it was read from the queues.
CREATE TABLE usage (
    hour_ms INTEGER NOT NULL,
    node TEXT NOT NULL,
    user_name TEXT NOT NULL,
    proof TEXT NOT NULL,
    link TEXT NOT NULL,
    protocol TEXT NOT NULL,
    -- Reservations that began in this hour.
    begun INTEGER NOT NULL,
    octets INTEGER NOT NULL,
    packets INTEGER NOT NULL,
    drops INTEGER NOT NULL,
    reserved_octets INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (hour_ms, node, user_name, proof, link, protocol)
) STRICT;

CREATE INDEX usage_revision ON usage (revision);

-- Records that were lost because nothing could be written for too long.
CREATE TABLE gap (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    node TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    records INTEGER NOT NULL,
    revision INTEGER NOT NULL
) STRICT;

-- How far each program has read that copies the records elsewhere.
CREATE TABLE export (
    name TEXT PRIMARY KEY,
    revision INTEGER NOT NULL
) STRICT;
