-- SPDX-License-Identifier: Apache-2.0
-- Version 3: the processes behind host:user, in minutes and hours. cgroup: empty if it is not known.
CREATE TABLE process (
    id INTEGER PRIMARY KEY,
    comm TEXT NOT NULL,
    cgroup TEXT NOT NULL,
    UNIQUE (comm, cgroup)
) STRICT;

-- Those that took most of a VM, or, where vm is 0, of all VMs of the host together.
CREATE TABLE took (
    win INTEGER NOT NULL,
    vm INTEGER NOT NULL,
    process INTEGER NOT NULL,
    ns INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (win, vm, process)
) STRICT, WITHOUT ROWID;
