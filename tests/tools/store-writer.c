/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that kill it: writes windows into a store as fast as it can, from a second of a day
 * on, and logs to stderr.
 *     store-writer DIRECTORY FIRST_SECOND [WINDOWS]
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "tests/unit/store-cases.h"

#define VMS         5
#define BACKLOG_MAX 16

int
main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: store-writer DIRECTORY FIRST_SECOND [WINDOWS]\n");
        return 2;
    }
    int64_t first = g_ascii_strtoll(argv[2], NULL, 10);
    int64_t windows = argc > 3 ? g_ascii_strtoll(argv[3], NULL, 10) : INT64_MAX;
    struct vg_store_options options = store_case_options(argv[1]);
    vg_log_set_level(VG_LOG_INFO);
    vg_store *store = vg_store_new(&options, NULL);
    if (!store)
        return 1;
    for (int64_t i = 0; i < windows; i++) {
        int64_t end_ns = MIDNIGHT_NS + (first + i + 1) * S_NS;
        store_case_put(store, "kill", end_ns - S_NS, end_ns, VMS);
        while (vg_store_backlog(store) >= BACKLOG_MAX)
            g_usleep(100);
    }
    bool all = vg_store_flush(store, 10 * S_NS);
    vg_store_free(store);
    return all ? 0 : 1;
}
