/* SPDX-License-Identifier: Apache-2.0
 *
 * Random scripts for ledgers. A legal one comes from a small simulated scheduler: every record of
 * it could come from a kernel. The others are legal ones that something happened to.
 */
#ifndef VG_TESTS_RANDOM_SCRIPT_H
#define VG_TESTS_RANDOM_SCRIPT_H

#include "tests/unit/slow-ledger.h"

enum random_kind {
    RANDOM_COMPLETE, /* legal, and the CPUs' first occupants are on record: no discontinuity */
    RANDOM_LEGAL,    /* legal; contexts and migrations may be missing, tids are reused */
    RANDOM_DAMAGED,  /* records dropped, doubled, late, with wrong threads and CPUs, and loss */
    RANDOM_CHAOS     /* the same, and nobody can say who is a VM */
};

/* Free with random_script_clear(). */
void random_script_init(struct slow_script *script, enum random_kind kind, uint64_t seed);
void random_script_clear(struct slow_script *script);

#endif
