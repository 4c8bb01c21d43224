-- SPDX-License-Identifier: Apache-2.0
-- state.db, version 6: that this host is to be emptied, and stays empty; no row if it is not. Times are
-- nanoseconds since the epoch.
CREATE TABLE drain (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    asked_by TEXT NOT NULL,
    since_ns INTEGER NOT NULL
) STRICT;
