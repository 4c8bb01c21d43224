-- SPDX-License-Identifier: Apache-2.0
-- state.db, version 1. Times are nanoseconds since the epoch.
CREATE TABLE plan (
    id TEXT NOT NULL UNIQUE,
    made_ns INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    document TEXT NOT NULL
) STRICT;

CREATE INDEX plan_by_time ON plan (made_ns, id);
