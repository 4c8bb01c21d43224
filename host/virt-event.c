/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/virt-event.h"

#include <stdarg.h>

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>

#include "base/error.h"

/* The maximum time in the loop between heartbeats, and checks whether to stop. */
#define TICK_MS 500

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static vg_thread *loop;
static bool registered; /* this is done once for the process */
static int timer = -1;

static void
virt_event_tick(int id, void *data)
{
    (void)id;
    (void)data;
}

static void
silence(void *data, virErrorPtr error)
{
    (void)data;
    (void)error;
}

static void
virt_event_run(vg_thread *self, void *arg)
{
    (void)arg;
    while (!vg_thread_stopping(self)) {
        vg_thread_beat(self);
        virEventRunDefaultImpl();
    }
    /* The loop itself frees removed handles in its next iteration. */
    virEventRemoveTimeout(timer);
    virEventRunDefaultImpl();
}

static void
virt_event_wake(void *arg)
{
    (void)arg;
    virEventUpdateTimeout(timer, 0);
}

/* Performs the part of vg_virt_event_start() under the lock. None of these calls waits. */
static int
start_loop(GError **err)
{
    if (!registered) {
        virSetErrorFunc(NULL, silence);
        if (virInitialize() < 0 || virEventRegisterDefaultImpl() < 0)
            return vg_virt_error(err, "cannot set up libvirt's event loop");
        registered = true;
    }
    timer = virEventAddTimeout(TICK_MS, virt_event_tick, NULL, NULL);
    if (timer < 0)
        return vg_virt_error(err, "cannot set up libvirt's event loop");
    loop = vg_thread_new("virt-ev", virt_event_run, virt_event_wake, NULL, err);
    return loop ? 0 : -1;
}

int
vg_virt_event_start(GError **err)
{
    VG_LOCK_SCOPE(&lock);
    return loop ? 0 : start_loop(err);
}

const vg_thread *
vg_virt_event_thread(void)
{
    VG_LOCK_SCOPE(&lock);
    return loop;
}

void
vg_virt_event_stop(void)
{
    pthread_mutex_lock(&lock);
    vg_thread *ending = loop;
    loop = NULL;
    pthread_mutex_unlock(&lock);
    vg_thread_free(ending);
}

int
vg_virt_error(GError **err, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    g_autofree char *text = g_strdup_vprintf(fmt, args);
    va_end(args);
    vg_error(err, VG_E_EXTERNAL, "%s: %s", text, virGetLastErrorMessage());
    virResetLastError();
    return -1;
}
