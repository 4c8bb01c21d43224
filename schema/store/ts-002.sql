-- SPDX-License-Identifier: Apache-2.0
-- Version 2: what the host did in a window, and who measured it.
CREATE TABLE collector (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

-- ns: time of the windows that it measured. who_ns: of it, that in which it knew who took CPU time.
CREATE TABLE measured (
    win INTEGER NOT NULL,
    collector INTEGER NOT NULL,
    ns INTEGER NOT NULL,
    who_ns INTEGER NOT NULL,
    PRIMARY KEY (win, collector)
) STRICT, WITHOUT ROWID;

-- No row: nothing of it was told. Each *_of_ns is the time of the windows in which what follows it
-- was told. load_us: mean number of threads that run or wait, of the last minute, times time.
CREATE TABLE host (
    win INTEGER PRIMARY KEY,
    own_of_ns INTEGER NOT NULL,
    own_ns INTEGER NOT NULL,
    idle_of_ns INTEGER NOT NULL,
    idle_ns INTEGER NOT NULL,
    steal_ns INTEGER NOT NULL,
    load_of_ns INTEGER NOT NULL,
    load_us INTEGER NOT NULL,
    pressure_of_ns INTEGER NOT NULL,
    cpu_some_ns INTEGER NOT NULL,
    memory_some_ns INTEGER NOT NULL,
    memory_full_ns INTEGER NOT NULL,
    io_some_ns INTEGER NOT NULL,
    io_full_ns INTEGER NOT NULL
) STRICT;
