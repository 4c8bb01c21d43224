/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the made-up daemon share: its state, and its tables.
 */
#ifndef VG_TESTS_TOOLS_FAKE_PRIVATE_H
#define VG_TESTS_TOOLS_FAKE_PRIVATE_H

#include <pthread.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/thread.h"
#include "tests/tools/fake-backend.h"

/* The VM that is gone, and whose name was "departed". */
#define FAKE_DEPARTED "5c9e2c3a-55aa-4c3e-9d54-2f1f6a3c9e02"
#define FAKE_BEGIN_NS INT64_C(1795200000000000000)
/* The UUID of a VM, from its number. */
#define FAKE_UUID "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c%04x"

struct fake_backend {
    struct vg_backend table;
    struct fake_options options;
    pthread_mutex_t lock;
    vg_view *view;
    vg_gpu_log *gpu_log;
    GPtrArray *plans;         /* struct vg_saved_plan, oldest first */
    GPtrArray *tokens;        /* struct vg_token; the text of each is its name and "-token" */
    GPtrArray *moves;         /* struct vg_migration, oldest first */
    GPtrArray *kept;          /* struct vg_reservation */
    GPtrArray *audit;         /* struct vg_audit_entry, oldest first */
    struct fake_churn *churn; /* NULL: VMs stay */
    uint64_t refusals;
    uint64_t seq;
};

extern const struct vg_backend_measurement fake_measurement;
extern const struct vg_backend_access fake_access;
extern const struct vg_backend_plans fake_plans;
extern const struct vg_backend_moves fake_moves;
extern const struct vg_backend_acts fake_acts;

GPtrArray *fake_list_proxies(void *data, const char *host, GError **err);

/* Takes as long as jobs are told to take. */
void fake_work(const fake_backend *fake);

/* fake-view.c: figures that grow with the scale; the next view. */
void fake_fill_figures(struct vg_cpu_figures *cpu, int64_t scale);
vg_view *fake_make_view(fake_backend *fake);

/* fake-churn.c: one more window, and the sums of all, of VMs that come and go. */
struct fake_churn *fake_churn_new(int64_t vms);
void fake_churn_free(struct fake_churn *churn);
void fake_churn_step(struct fake_churn *churn, vg_view *view, struct vg_snap_host *host);

/* fake-access.c */
void fake_add_known_tokens(fake_backend *fake);

#endif
