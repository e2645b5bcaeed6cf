-- Schema 1 of the accounting records of many routers: that of one router, with the identity of its database in each row. Times are
-- milliseconds since 1970.

CREATE SCHEMA earmark;

CREATE TABLE earmark.meta (version BIGINT NOT NULL);

INSERT INTO earmark.meta VALUES (1);

CREATE TABLE earmark.reservation (
    source TEXT NOT NULL,
    id BIGINT NOT NULL,
    node TEXT NOT NULL,
    protocol TEXT NOT NULL,
    link TEXT NOT NULL,
    destination TEXT NOT NULL,
    destination_port BIGINT NOT NULL,
    ip_protocol BIGINT NOT NULL,
    dscp BIGINT,
    senders TEXT NOT NULL,
    user_name TEXT NOT NULL,
    proof TEXT NOT NULL,
    rate_bps BIGINT NOT NULL,
    begun_ms BIGINT NOT NULL,
    seen_ms BIGINT NOT NULL,
    ended_ms BIGINT,
    end_reason TEXT,
    octets BIGINT NOT NULL,
    packets BIGINT NOT NULL,
    drops BIGINT NOT NULL,
    reserved_octets BIGINT NOT NULL,
    PRIMARY KEY (source, id)
);

CREATE INDEX reservation_begun ON earmark.reservation (begun_ms);
CREATE INDEX reservation_user ON earmark.reservation (user_name, begun_ms);

CREATE TABLE earmark.usage (
    source TEXT NOT NULL,
    hour_ms BIGINT NOT NULL,
    node TEXT NOT NULL,
    user_name TEXT NOT NULL,
    proof TEXT NOT NULL,
    link TEXT NOT NULL,
    protocol TEXT NOT NULL,
    begun BIGINT NOT NULL,
    octets BIGINT NOT NULL,
    packets BIGINT NOT NULL,
    drops BIGINT NOT NULL,
    reserved_octets BIGINT NOT NULL,
    PRIMARY KEY (source, hour_ms, node, user_name, proof, link, protocol)
);

CREATE TABLE earmark.gap (
    source TEXT NOT NULL,
    id BIGINT NOT NULL,
    node TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    records BIGINT NOT NULL,
    PRIMARY KEY (source, id)
);

-- How far the records of each router are copied.
CREATE TABLE earmark.copied (
    source TEXT PRIMARY KEY,
    revision BIGINT NOT NULL
);
