/* SPDX-License-Identifier: Apache-2.0
 *
 * All SQL of the store except the schema. Each version of a file has its own table of statements,
 * because a file that is no longer written keeps its original schema.
 */
#ifndef VG_STORE_STORE_SQL_H
#define VG_STORE_STORE_SQL_H

#include "store/store-time.h"

enum vg_sql {
    VG_SQL_BEGIN_WRITE,
    VG_SQL_BEGIN_READ,
    VG_SQL_COMMIT,
    VG_SQL_SOURCE_FIND, /* name -> id */
    VG_SQL_SOURCE_ADD,
    VG_SQL_SOURCES,    /* -> id, name */
    VG_SQL_VM_FIND,    /* key -> id, name */
    VG_SQL_VM_OF_NAME, /* name -> key of the newest one */
    VG_SQL_VM_ADD,     /* key, name */
    VG_SQL_VM_RENAME,
    VG_SQL_VM_NAME, /* id -> key, name */
    VG_SQL_AGGRESSOR_FIND,
    VG_SQL_AGGRESSOR_ADD,
    VG_SQL_AGGRESSOR_NAME,   /* id -> name */
    VG_SQL_WIN_ADD,          /* source, begin, end, windows, lost_events */
    VG_SQL_WIN_AFTER,        /* source, after -> id, begin, end */
    VG_SQL_WIN_RANGE,        /* source, after, to -> id, begin, end, windows, lost_events */
    VG_SQL_WIN_NEWEST,       /* source -> end or NULL */
    VG_SQL_WIN_NEWEST_IN,    /* source, after, to -> end or NULL */
    VG_SQL_WIN_NEWEST_OF_VM, /* source, after, to, vm -> end */
    VG_SQL_WIN_DELETE,       /* id */
    VG_SQL_SAMPLE_DELETE,    /* win */
    VG_SQL_LOST_DELETE,      /* win */
    VG_SQL_SAMPLE_ADD,       /* win, vm, then the columns of VG_SQL_SAMPLE_COLUMNS */
    /* source, after, to, vm -> the columns (NULL if the window does not have the VM), then those of
     * VG_SQL_WIN_RANGE, by end */
    VG_SQL_SAMPLES_OF_VM,
    VG_SQL_SAMPLE_SUMS, /* win -> windows, run, preempt, wake_wait, preemptions, lacks; NULL if no
                           VM */
    VG_SQL_SAMPLES,     /* win -> the columns, vm */
    VG_SQL_LOST_ADD,    /* win, vm, aggressor, ns, count; adds to an existing row */
    /* source, after, to, vm -> end, aggressor (NULL if none), ns, count, by end */
    VG_SQL_LOST_OF_VM,
    VG_SQL_LOSSES,          /* win -> vm, aggressor, ns, count */
    VG_SQL_STALE_ADD,       /* source, end */
    VG_SQL_STALE_ADD_ALL,   /* unit; for all periods in which windows end */
    VG_SQL_STALE_DELETE,    /* source, end */
    VG_SQL_STALE_LIST,      /* -> name of source, end */
    VG_SQL_STALE_OF_SOURCE, /* source -> end */
    /* From version 2 on. */
    VG_SQL_COLLECTOR_FIND, /* name -> id */
    VG_SQL_COLLECTOR_ADD,
    VG_SQL_HOST_ADD, /* win, then the columns of VG_SQL_HOST_COLUMNS */
    VG_SQL_HOST,     /* win -> win, the columns */
    VG_SQL_HOST_DELETE,
    VG_SQL_MEASURED_ADD, /* win, collector, ns, who_ns */
    VG_SQL_MEASURED,     /* win -> name, ns, who_ns */
    VG_SQL_MEASURED_DELETE,
    /* From version 3 on. */
    VG_SQL_PROCESS_FIND, /* comm, cgroup -> id */
    VG_SQL_PROCESS_ADD,
    VG_SQL_TOOK_ADD, /* win, vm, process, ns, count */
    VG_SQL_TOOK,     /* win -> vm, comm, cgroup, ns, count */
    VG_SQL_TOOK_OF,  /* win, vm -> comm, cgroup, ns */
    VG_SQL_TOOK_DELETE,
    VG_SQL_MAX
};

/* The number of columns of `sample` after win and vm. */
#define VG_SQL_SAMPLE_COLUMNS 26

/* The number of columns of `host` after win. */
#define VG_SQL_HOST_COLUMNS 15

/* Return the newest version of a file, and the script that upgrades a file to `version` (from 1)
 * from the previous one. */
int vg_sql_newest_version(void);
const char *vg_sql_script(int version);

/* Returns the statement for a file of this version, 1..newest; NULL if this version has no such
 * table. */
const char *vg_sql_text(int version, enum vg_sql sql);

#endif
