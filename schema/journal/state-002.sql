-- SPDX-License-Identifier: Apache-2.0
-- state.db, version 2: who may come from the network, and what was done by whom. Times are
-- nanoseconds since the epoch.
CREATE TABLE token (
    name TEXT NOT NULL UNIQUE,
    hash BLOB NOT NULL UNIQUE,  -- SHA-256 of the token; the token itself is nowhere
    role TEXT NOT NULL,
    made_ns INTEGER NOT NULL,
    expires_ns INTEGER,         -- NULL: never
    used_ns INTEGER             -- NULL: never; written at most once a minute
) STRICT;

-- Append-only; AUTOINCREMENT, so that no number is given twice.
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ns INTEGER NOT NULL,
    identity TEXT NOT NULL,     -- '': none, the request was refused
    role TEXT NOT NULL,
    origin TEXT NOT NULL,       -- 'unix', or the address
    method TEXT NOT NULL,
    route TEXT NOT NULL,
    object TEXT NOT NULL,
    status INTEGER NOT NULL,    -- of HTTP
    request_id TEXT NOT NULL,
    count INTEGER NOT NULL      -- of refused requests in this minute; else 1
) STRICT;

CREATE INDEX audit_by_time ON audit (at_ns);
