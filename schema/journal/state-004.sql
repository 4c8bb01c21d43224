-- SPDX-License-Identifier: Apache-2.0
-- state.db, version 4: what happened. Times are nanoseconds since the epoch.
CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    boot TEXT NOT NULL,         -- the run of vgpud
    seq INTEGER NOT NULL,       -- of the event in that run
    at_ns INTEGER NOT NULL,
    type TEXT NOT NULL,
    document TEXT NOT NULL      -- all of it: JSON
) STRICT;

CREATE UNIQUE INDEX event_by_seq ON event (boot, seq);
CREATE INDEX event_by_time ON event (at_ns);
