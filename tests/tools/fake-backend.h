/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up daemon behind the API: VMs and samples that follow from their time, plans, tokens and
 * audit in memory. The text of a token is its name and "-token"; reader, operator and admin are
 * there from the start, and expired, an admin's that has expired.
 */
#ifndef VG_TESTS_TOOLS_FAKE_BACKEND_H
#define VG_TESTS_TOOLS_FAKE_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "api/backend.h"

struct fake_options {
    int64_t vms;
    int64_t gpu_vms;  /* so many of the first ones use a GPU */
    int64_t job_ms;   /* that reading samples and making plans take */
    const char *hung; /* while there is such a file, hosts called "hung..." hang; or NULL */
    bool not_ready;
    bool churn;                            /* VMs come and go */
    const char *without;                   /* "plans" or "moves", which are not offered; or NULL */
    const char *operator_subject;          /* of a certificate; NULL: none has a role */
    bool expired_lets_in, revoked_lets_in; /* faults: such tokens are good */
};

typedef struct fake_backend fake_backend;

fake_backend *fake_backend_new(const struct fake_options *options);
void fake_backend_free(fake_backend *fake);

/* For struct vg_api_options; lives as long as fake. */
const struct vg_backend *fake_backend_table(const fake_backend *fake);

/* One more window. One thread at a time. */
void fake_backend_next_view(fake_backend *fake);

#endif
