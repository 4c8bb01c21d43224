-- SPDX-License-Identifier: Apache-2.0
-- A day of windows, a month of minutes or a year of hours; version 1. Times are nanoseconds since
-- the epoch; a window covers begin_ns < t <= end_ns.
CREATE TABLE source (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
