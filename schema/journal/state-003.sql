-- SPDX-License-Identifier: Apache-2.0
-- state.db, version 3: moves of VMs, and GPUs that are kept for VMs on their way. Times are
-- nanoseconds since the epoch.
CREATE TABLE migration (
    id TEXT NOT NULL UNIQUE,
    uuid TEXT NOT NULL,         -- of the VM
    made_ns INTEGER NOT NULL,
    active INTEGER NOT NULL,    -- 1: it has begun and not ended; 2: it waits for its turn
    request_key TEXT,           -- Idempotency-Key of whoever asked, after his identity; NULL: none
    request TEXT,               -- what he asked for with this key
    document TEXT NOT NULL      -- all of it: JSON; a step without an end is an intent
) STRICT;

CREATE UNIQUE INDEX migration_one_active ON migration (uuid) WHERE active = 1;
CREATE UNIQUE INDEX migration_by_key ON migration (request_key) WHERE request_key IS NOT NULL;
CREATE INDEX migration_by_time ON migration (made_ns);

CREATE TABLE reservation (
    id TEXT NOT NULL UNIQUE,
    move_id TEXT NOT NULL UNIQUE,
    made_ns INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL, -- the lease: after it, nothing is kept any more
    document TEXT NOT NULL
) STRICT;
