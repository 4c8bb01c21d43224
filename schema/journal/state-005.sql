-- SPDX-License-Identifier: Apache-2.0
-- state.db, version 5: requests for moves that were passed on to other vgpuds, so that the same one is
-- passed on to the same vgpud again. Times are nanoseconds since the epoch.
CREATE TABLE passed_on (
    request_key TEXT NOT NULL UNIQUE, -- as that of migration
    request TEXT NOT NULL,
    peer TEXT NOT NULL,
    at_ns INTEGER NOT NULL
) STRICT;

CREATE INDEX passed_on_by_time ON passed_on (at_ns);
