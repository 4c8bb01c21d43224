/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the store of a host that has been watched for long, by the real writer: windows of a minute
 * up to an hour before the end, then of a second. All that is before ends up in the same sums as
 * windows of a second would.
 *     store-history DIRECTORY END_S SECONDS VMS
 * END_S: seconds since the epoch. The source is "live"; VMs are vm-0 to vm-(VMS-1).
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "tests/unit/store-cases.h"

#define BACKLOG_MAX 64

int
main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: store-history DIRECTORY END_S SECONDS VMS\n");
        return 2;
    }
    int64_t end_ns = g_ascii_strtoll(argv[2], NULL, 10) * S_NS;
    int64_t at_ns = end_ns - g_ascii_strtoll(argv[3], NULL, 10) * S_NS;
    guint vms = (guint)g_ascii_strtoull(argv[4], NULL, 10);
    struct vg_store_options options = store_case_options(argv[1]);
    vg_log_set_level(VG_LOG_NOTICE);
    vg_store *store = vg_store_new(&options, NULL);
    if (!store)
        return 1;
    while (at_ns < end_ns) {
        int64_t length_ns = at_ns + HOUR_NS < end_ns ? 60 * S_NS : S_NS;
        store_case_put(store, "live", at_ns, at_ns + length_ns, vms);
        at_ns += length_ns;
        while (vg_store_backlog(store) >= BACKLOG_MAX)
            g_usleep(500);
    }
    bool all = vg_store_flush(store, 600 * S_NS);
    vg_store_free(store);
    return all ? 0 : 1;
}
