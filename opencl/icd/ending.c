/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/icd/ending.h"

#include <stdlib.h>
#include <unistd.h>

#include <stdatomic.h>

#include "opencl/icd/gate.h"
#include "opencl/track/remake.h"

static atomic_bool ending_has_begun, ending_has_context;
static pid_t ending_pid;

static void
ending_begin(void)
{
    /* In a forked child, nothing opens the gate. */
    if (getpid() != ending_pid)
        return;
    vg_cl_gate_enter();
    atomic_store(&ending_has_begun, true);
    vg_cl_gate_leave();
}

static void
ending_on_context(void)
{
    if (!atomic_exchange(&ending_has_context, true))
        atexit(ending_begin);
}

void
vg_cl_ending_watch(void)
{
    ending_pid = getpid();
    atexit(ending_begin);
    atomic_store(&ending_has_context, false);
    vg_cl_on_context = ending_on_context;
}

bool
vg_cl_is_ending(void)
{
    return atomic_load(&ending_has_begun);
}
