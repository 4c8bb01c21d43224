/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-sql.h"

#include <stddef.h>

#include <glib.h>

#include "schema/schema.h"

#define SAMPLE_COLUMNS                                                                             \
 "windows, flags, observed_ns, run_ns, guest_ns, preempt_ns, wake_wait_ns, gpu_active_ns, "        \
 "entries, preemptions, wakeups, blocks, switches_out, unseen_migrations, clipped, exit_hlt, "     \
 "exit_io, exit_mmio, exit_page_fault, exit_interrupt, exit_msr, exit_cpuid, exit_hypercall, "     \
 "exit_preemption_timer, exit_pause, exit_other"
/* The flags of a row that make sums of CPU time unknown: VG_CPU_NO_SWITCHES, NO_WAKEUPS and
 * ABSENT_CPUS, shifted by VG_SAMPLE_LACKS_SHIFT. */
#define SAMPLE_LACKS "max(flags & 4) | max(flags & 8) | max(flags & 128)"
/* `windows` is also the first column of sample. */
#define WIN_COLUMNS "id, begin_ns, end_ns, win.windows, lost_events"
#define TEN_VALUES  "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
#define IN_RANGE    " WHERE source = ?1 AND end_ns > ?2 AND end_ns <= ?3 "

static const char *const scripts_ts[] = {NULL, vg_schema_ts_001, vg_schema_ts_002, vg_schema_ts_003,
                                         vg_schema_ts_004};

static const char *const ts_1[VG_SQL_MAX] = {
    [VG_SQL_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [VG_SQL_BEGIN_READ] = "BEGIN",
    [VG_SQL_COMMIT] = "COMMIT",
    [VG_SQL_SOURCE_FIND] = "SELECT id FROM source WHERE name = ?",
    [VG_SQL_SOURCE_ADD] = "INSERT INTO source (name) VALUES (?)",
    [VG_SQL_SOURCES] = "SELECT id, name FROM source",
    [VG_SQL_VM_FIND] = "SELECT id, name FROM vm WHERE key = ?",
    [VG_SQL_VM_OF_NAME] = "SELECT key FROM vm WHERE name = ? ORDER BY id DESC LIMIT 1",
    [VG_SQL_VM_ADD] = "INSERT INTO vm (key, name) VALUES (?, ?)",
    [VG_SQL_VM_RENAME] = "UPDATE vm SET name = ?2 WHERE id = ?1",
    [VG_SQL_VM_NAME] = "SELECT key, name FROM vm WHERE id = ?",
    [VG_SQL_AGGRESSOR_FIND] = "SELECT id FROM aggressor WHERE name = ?",
    [VG_SQL_AGGRESSOR_ADD] = "INSERT INTO aggressor (name) VALUES (?)",
    [VG_SQL_AGGRESSOR_NAME] = "SELECT name FROM aggressor WHERE id = ?",
    [VG_SQL_WIN_ADD] = "INSERT INTO win (source, begin_ns, end_ns, windows, lost_events) "
                       "VALUES (?, ?, ?, ?, ?)",
    [VG_SQL_WIN_AFTER] = "SELECT id, begin_ns, end_ns FROM win WHERE source = ? AND end_ns > ? "
                         "ORDER BY end_ns",
    [VG_SQL_WIN_RANGE] = "SELECT " WIN_COLUMNS " FROM win" IN_RANGE "ORDER BY end_ns",
    [VG_SQL_WIN_NEWEST] = "SELECT max(end_ns) FROM win WHERE source = ?",
    [VG_SQL_WIN_NEWEST_IN] = "SELECT max(end_ns) FROM win" IN_RANGE,
    [VG_SQL_WIN_NEWEST_OF_VM] =
        "SELECT end_ns FROM win" IN_RANGE
        "AND EXISTS (SELECT 1 FROM sample WHERE sample.win = win.id AND vm = ?4) "
        "ORDER BY end_ns DESC LIMIT 1",
    [VG_SQL_WIN_DELETE] = "DELETE FROM win WHERE id = ?",
    [VG_SQL_SAMPLE_DELETE] = "DELETE FROM sample WHERE win = ?",
    [VG_SQL_LOST_DELETE] = "DELETE FROM lost WHERE win = ?",
    [VG_SQL_SAMPLE_ADD] = "INSERT INTO sample (win, vm, " SAMPLE_COLUMNS
                          ") VALUES (?, ?, " TEN_VALUES TEN_VALUES "?, ?, ?, ?, ?, ?)",
    [VG_SQL_SAMPLES_OF_VM] =
        "SELECT sample." SAMPLE_COLUMNS ", " WIN_COLUMNS " FROM win LEFT JOIN sample "
        "ON sample.win = win.id AND vm = ?4" IN_RANGE "ORDER BY end_ns",
    [VG_SQL_SAMPLE_SUMS] = "SELECT sum(windows), sum(run_ns), sum(preempt_ns), sum(wake_wait_ns), "
                           "sum(preemptions), " SAMPLE_LACKS " FROM sample WHERE win = ?",
    [VG_SQL_SAMPLES] = "SELECT " SAMPLE_COLUMNS ", vm FROM sample WHERE win = ?",
    [VG_SQL_LOST_ADD] = "INSERT INTO lost VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
                        "SET ns = ns + excluded.ns, count = count + excluded.count",
    /* Returns a row even for a window without losses, so that no step takes long. */
    [VG_SQL_LOST_OF_VM] = "SELECT end_ns, aggressor, ns, count FROM win LEFT JOIN lost "
                          "ON lost.win = win.id AND vm = ?4" IN_RANGE "ORDER BY end_ns",
    [VG_SQL_LOSSES] = "SELECT vm, aggressor, ns, count FROM lost WHERE win = ?",
    [VG_SQL_STALE_ADD] = "INSERT OR IGNORE INTO stale VALUES (?, ?)",
    [VG_SQL_STALE_ADD_ALL] = "INSERT OR IGNORE INTO stale "
                             "SELECT DISTINCT source, ((end_ns - 1) / ?1 + 1) * ?1 FROM win",
    [VG_SQL_STALE_DELETE] = "DELETE FROM stale WHERE source = ? AND end_ns = ?",
    [VG_SQL_STALE_LIST] =
        "SELECT source.name, stale.end_ns FROM stale JOIN source ON source.id = stale.source "
        "ORDER BY stale.end_ns",
    [VG_SQL_STALE_OF_SOURCE] = "SELECT end_ns FROM stale WHERE source = ?",
};

static const char *const ts_2[VG_SQL_MAX] = {
    [VG_SQL_COLLECTOR_FIND] = "SELECT id FROM collector WHERE name = ?",
    [VG_SQL_COLLECTOR_ADD] = "INSERT INTO collector (name) VALUES (?)",
    [VG_SQL_HOST_ADD] = "INSERT INTO host VALUES (?, " TEN_VALUES "?, ?, ?)",
    [VG_SQL_HOST] = "SELECT * FROM host WHERE win = ?",
    [VG_SQL_HOST_DELETE] = "DELETE FROM host WHERE win = ?",
    [VG_SQL_MEASURED_ADD] = "INSERT INTO measured VALUES (?, ?, ?, ?)",
    [VG_SQL_MEASURED] = "SELECT name, ns, who_ns FROM measured JOIN collector "
                        "ON collector.id = collector WHERE win = ?",
    [VG_SQL_MEASURED_DELETE] = "DELETE FROM measured WHERE win = ?",
};

static const char *const ts_3[VG_SQL_MAX] = {
    [VG_SQL_PROCESS_FIND] = "SELECT id FROM process WHERE comm = ? AND cgroup = ?",
    [VG_SQL_PROCESS_ADD] = "INSERT INTO process (comm, cgroup) VALUES (?, ?)",
    [VG_SQL_TOOK_ADD] = "INSERT INTO took VALUES (?, ?, ?, ?, ?)",
    [VG_SQL_TOOK] = "SELECT vm, comm, cgroup, ns, count FROM took JOIN process "
                    "ON process.id = process WHERE win = ?",
    [VG_SQL_TOOK_OF] = "SELECT comm, cgroup, ns FROM took JOIN process "
                       "ON process.id = process WHERE win = ? AND vm = ?",
    [VG_SQL_TOOK_DELETE] = "DELETE FROM took WHERE win = ?",
};

static const char *const ts_4[VG_SQL_MAX] = {
    [VG_SQL_HOST_ADD] = "INSERT INTO host VALUES (?, " TEN_VALUES "?, ?, ?, ?, ?)",
};

/* The texts that each version adds to the previous ones. */
static const char *const *const ts[] = {NULL, ts_1, ts_2, ts_3, ts_4};
G_STATIC_ASSERT(G_N_ELEMENTS(ts) == G_N_ELEMENTS(scripts_ts));

int
vg_sql_newest_version(void)
{
    return (int)G_N_ELEMENTS(ts) - 1;
}

const char *
vg_sql_script(int version)
{
    return scripts_ts[version];
}

const char *
vg_sql_text(int version, enum vg_sql sql)
{
    const char *text = NULL;

    for (; version > 0 && !text; version--)
        text = ts[version][sql];
    return text;
}
