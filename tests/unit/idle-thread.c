/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/unit/idle-thread.h"

vg_thread *idle_thread;

static void
sleep_long(vg_thread *self, void *arg)
{
    (void)arg;
    vg_thread_sleep_until(self, INT64_MAX);
}

int
idle_thread_start(void **state)
{
    g_autoptr(GError) err = NULL;

    (void)state;
    idle_thread = vg_thread_new("idle", sleep_long, NULL, NULL, &err);
    return idle_thread ? 0 : -1;
}

int
idle_thread_stop(void **state)
{
    (void)state;
    vg_thread_free(idle_thread);
    return 0;
}
