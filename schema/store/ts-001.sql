-- SPDX-License-Identifier: Apache-2.0
-- A day of windows, a month of minutes or a year of hours; version 1. Times are nanoseconds since
-- the epoch; a window covers begin_ns < t <= end_ns. Numbers of tables are good in this file only.
CREATE TABLE source (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

-- key: UUID, or name where the VM has none. name: the newest.
CREATE TABLE vm (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL
) STRICT;

CREATE TABLE aggressor (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

-- windows: how many it is made of; 1 in a file of windows. Those of one source do not overlap.
CREATE TABLE win (
    id INTEGER PRIMARY KEY,
    source INTEGER NOT NULL,
    begin_ns INTEGER NOT NULL,
    end_ns INTEGER NOT NULL,
    windows INTEGER NOT NULL,
    lost_events INTEGER NOT NULL,
    UNIQUE (source, end_ns)
) STRICT;

-- Time first, so that writing appends. blocked_ns is what is left of observed_ns.
-- flags: 1 guest_ns is known, 2 gpu_active_ns is known.
CREATE TABLE sample (
    win INTEGER NOT NULL,
    vm INTEGER NOT NULL,
    windows INTEGER NOT NULL,
    flags INTEGER NOT NULL,
    observed_ns INTEGER NOT NULL,
    run_ns INTEGER NOT NULL,
    guest_ns INTEGER NOT NULL,
    preempt_ns INTEGER NOT NULL,
    wake_wait_ns INTEGER NOT NULL,
    gpu_active_ns INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    preemptions INTEGER NOT NULL,
    wakeups INTEGER NOT NULL,
    blocks INTEGER NOT NULL,
    switches_out INTEGER NOT NULL,
    unseen_migrations INTEGER NOT NULL,
    clipped INTEGER NOT NULL,
    exit_hlt INTEGER NOT NULL,
    exit_io INTEGER NOT NULL,
    exit_mmio INTEGER NOT NULL,
    exit_page_fault INTEGER NOT NULL,
    exit_interrupt INTEGER NOT NULL,
    exit_msr INTEGER NOT NULL,
    exit_cpuid INTEGER NOT NULL,
    exit_hypercall INTEGER NOT NULL,
    exit_preemption_timer INTEGER NOT NULL,
    exit_pause INTEGER NOT NULL,
    exit_other INTEGER NOT NULL,
    PRIMARY KEY (win, vm)
) STRICT, WITHOUT ROWID;

CREATE TABLE lost (
    win INTEGER NOT NULL,
    vm INTEGER NOT NULL,
    aggressor INTEGER NOT NULL,
    ns INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (win, vm, aggressor)
) STRICT, WITHOUT ROWID;

-- Minutes (in a file of windows) or hours (in one of minutes), by their end, whose sums in the
-- coarser file are not those of this file. Written with the windows, so that a crash forgets none.
CREATE TABLE stale (
    source INTEGER NOT NULL,
    end_ns INTEGER NOT NULL,
    PRIMARY KEY (source, end_ns)
) STRICT, WITHOUT ROWID;
