-- SPDX-License-Identifier: Apache-2.0
-- state.db, version 7: events for which the alert command has not run yet, so that it runs after a restart.
CREATE TABLE alert_owed (
    id INTEGER PRIMARY KEY, -- in the order of the events
    boot TEXT NOT NULL,     -- as those of event
    seq INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    document TEXT NOT NULL,
    UNIQUE (boot, seq)
) STRICT;
