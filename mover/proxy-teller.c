/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "mover/proxy-teller.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "model/proxy-socket.h"
#include "model/vm-name.h"
#include "mover/proxy-config.h"

#define VG_LOG_TAG "proxy"

/* The time between two looks at what is to be done. */
#define TELLER_LOOK_NS VG_NS_PER_S
/* The time after which a guest that knows it is told again, as it may have been started anew. */
#define TELLER_AGAIN_NS (15 * VG_NS_PER_S)
/* The pause after a guest could not be told, which doubles with each try. */
#define TELLER_PAUSE_NS     (2 * VG_NS_PER_S)
#define TELLER_PAUSE_MAX_NS (60 * VG_NS_PER_S)

#define TELLER_NONE "none"

struct teller_vm {
    char *name;       /* as the group has it, or the UUID of one whose group is gone */
    char *uuid;       /* NULL: not known yet */
    char *address;    /* "none": it has none */
    char *token_file; /* empty with "none" */
    bool is_gone;     /* the group is */
    /* What follows belongs to the thread, but for reading it under the lock. */
    bool is_told;
    bool may_know; /* it was told of a proxy, or is about to be */
    char *reason;  /* why not; NULL: it was not tried yet */
    int64_t told_ns;
    int64_t id;     /* of libvirt, of the domain that was tried last */
    int64_t due_ns; /* CLOCK_MONOTONIC; 0: at once */
    int64_t pause_ns;
};

struct vg_proxy_teller {
    struct vg_proxy_teller_parts parts;
    char *path; /* of the file with who was told */
    vg_thread *thread;
    atomic_bool cancel;
    pthread_mutex_t lock;
    GPtrArray *vms;     /* struct teller_vm; replaced by the configuration, under the lock */
    GPtrArray *written; /* UUIDs (char *) that the file has, sorted; the thread's */
};

static void
teller_vm_free(void *data)
{
    struct teller_vm *vm = data;

    g_free(vm->name);
    g_free(vm->uuid);
    g_free(vm->address);
    g_free(vm->token_file);
    g_free(vm->reason);
    g_free(vm);
}

static struct teller_vm *
teller_vm_new(const char *name, const char *address, const char *token_file)
{
    struct teller_vm *vm = g_new0(struct teller_vm, 1);

    vm->name = g_strdup(name);
    vm->address = g_strdup(address);
    vm->token_file = g_strdup(token_file);
    return vm;
}

/* ---- the file ---- */

static void
teller_read(vg_proxy_teller *teller)
{
    g_autofree char *text = NULL;

    if (!g_file_get_contents(teller->path, &text, NULL, NULL))
        return;
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (unsigned i = 0; lines[i]; i++) {
        if (g_uuid_string_is_valid(lines[i]))
            g_ptr_array_add(teller->written, g_strdup(lines[i]));
    }
}

static int
teller_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Writes who knows of a proxy, if that is another than before. */
static void
teller_write(vg_proxy_teller *teller)
{
    g_autoptr(GPtrArray) now = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GString) text = g_string_new(NULL), before = g_string_new(NULL);
    g_autoptr(GError) error = NULL;

    pthread_mutex_lock(&teller->lock);
    for (guint i = 0; i < teller->vms->len; i++) {
        const struct teller_vm *vm = teller->vms->pdata[i];
        if (vm->uuid && (vm->is_gone || vm->may_know))
            g_ptr_array_add(now, g_strdup(vm->uuid));
    }
    pthread_mutex_unlock(&teller->lock);
    g_ptr_array_sort(now, teller_compare);
    for (guint i = 0; i < now->len; i++)
        g_string_append_printf(text, "%s\n", (char *)now->pdata[i]);
    for (guint i = 0; i < teller->written->len; i++)
        g_string_append_printf(before, "%s\n", (char *)teller->written->pdata[i]);
    if (g_string_equal(text, before))
        return;
    if (!g_file_set_contents_full(teller->path, text->str, (gssize)text->len,
                                  G_FILE_SET_CONTENTS_CONSISTENT, 0640, &error)) {
        vg_log_warn_limited("cannot save which guests know their proxy, so the next vgpud cannot "
                            "notify them when it is removed reason=\"%s\"",
                            error->message);
        return;
    }
    g_ptr_array_unref(teller->written);
    teller->written = g_steal_pointer(&now);
}

/* ---- a guest ---- */

/* Finds the VM that is meant, one that runs before one that does not. Returns NULL if libvirt of
 * this host has none. */
static const struct vg_vm_here *
teller_find(const GPtrArray *all, const struct teller_vm *vm)
{
    const struct vg_vm_here *found = NULL;

    for (guint i = 0; i < all->len; i++) {
        const struct vg_vm_here *here = all->pdata[i];
        if (!vg_vm_is(vm->name, here->name, here->uuid))
            continue;
        if (here->id >= 0)
            return here;
        found = found ? found : here;
    }
    return found;
}

static bool
teller_runs(const struct vg_vm_here *here)
{
    return here && here->id >= 0;
}

/* Has the file say that the guest may know of a proxy, before it does. */
static void
teller_note_early(vg_proxy_teller *teller, struct teller_vm *vm)
{
    if (vm->may_know)
        return;
    pthread_mutex_lock(&teller->lock);
    vm->may_know = true;
    pthread_mutex_unlock(&teller->lock);
    teller_write(teller);
}

/* Asks the guest. Returns 0, or -1 and sets *err to why it does not know. */
static int
teller_tell(vg_proxy_teller *teller, struct teller_vm *vm, const char *uuid, GError **err)
{
    const bool has_proxy = strcmp(vm->address, TELLER_NONE) != 0;
    g_autofree char *at = has_proxy ? g_strconcat("proxy:", vm->address, NULL) : NULL;
    g_autofree char *token = has_proxy ? vg_proxy_config_token(vm->token_file, err) : NULL;

    if (has_proxy && !token)
        return -1;
    if (has_proxy)
        teller_note_early(teller, vm);
    return vg_mover_tell_proxy(teller->parts.mover, uuid, at, token, &teller->cancel, err);
}

static void
teller_note(vg_proxy_teller *teller, struct teller_vm *vm, const GError *error)
{
    const int64_t now_ns = vg_clock_monotonic_ns();
    VG_LOCK_SCOPE(&teller->lock);
    const bool was_told = vm->is_told;

    vm->is_told = !error;
    if (!error && !was_told) {
        vm->told_ns = vg_clock_realtime_ns();
        vg_log_notice("guest knows its proxy vm=\"%s\" address=\"%s\"", vm->name, vm->address);
    } else if (error && g_strcmp0(vm->reason, error->message) != 0) {
        vg_log_notice("cannot notify a guest of its proxy vm=\"%s\" reason=\"%s\"", vm->name,
                      error->message);
    }
    vm->pause_ns = !error             ? 0
                   : vm->pause_ns > 0 ? MIN(2 * vm->pause_ns, TELLER_PAUSE_MAX_NS)
                                      : TELLER_PAUSE_NS;
    vm->due_ns = now_ns + (error ? vm->pause_ns : TELLER_AGAIN_NS);
    g_free(vm->reason);
    vm->reason = error ? g_strdup(error->message) : NULL;
}

/* Notes what is seen of a VM. Returns whether it is to be told now. */
static bool
teller_is_due(vg_proxy_teller *teller, struct teller_vm *vm, const struct vg_vm_here *here)
{
    VG_LOCK_SCOPE(&teller->lock);

    if (!teller_runs(here)) {
        vm->is_told = false;
        vm->id = 0;
        g_free(vm->reason);
        vm->reason =
            g_strdup(here ? "it does not run here"
                          : "this host has no such VM; if it no longer exists, remove its group, "
                            "and its socket and token from vgpu-proxy");
        return false;
    }
    g_free(vm->uuid);
    vm->uuid = g_strdup(here->uuid);
    if (vm->id != here->id) {
        vm->is_told = false;
        vm->due_ns = vm->pause_ns = 0;
        vm->id = here->id;
    }
    return vg_clock_monotonic_ns() >= vm->due_ns;
}

/* Returns the VMs of now; they stay as they are while the thread holds them, but for the
 * configuration's next ones, which replace them. */
static GPtrArray *
teller_vms(vg_proxy_teller *teller)
{
    VG_LOCK_SCOPE(&teller->lock);
    return g_ptr_array_ref(teller->vms);
}

/* Forgets VMs whose group is gone and that know it, or that do not run here: what they knew is gone
 * with them. */
static void
teller_forget(vg_proxy_teller *teller, const GPtrArray *vms, const GPtrArray *all)
{
    VG_LOCK_SCOPE(&teller->lock);

    if (teller->vms != vms)
        return;
    for (guint i = vms->len; i > 0; i--) {
        const struct teller_vm *vm = vms->pdata[i - 1];
        if (vm->is_gone && (vm->is_told || !teller_runs(teller_find(all, vm))))
            g_ptr_array_remove_index(teller->vms, i - 1);
    }
}

/* Returns whether a VM whose group is gone has another one, which may name it otherwise. */
static bool
teller_has_group(const GPtrArray *vms, const struct vg_vm_here *here)
{
    for (guint i = 0; i < vms->len; i++) {
        const struct teller_vm *vm = vms->pdata[i];
        if (!vm->is_gone && vg_vm_is(vm->name, here->name, here->uuid))
            return true;
    }
    return false;
}

/* Tells those that are due: first those that no try has failed with, as one that does not answer
 * takes its time. */
static void
teller_round(vg_proxy_teller *teller, vg_thread *self, const GPtrArray *all)
{
    g_autoptr(GPtrArray) vms = teller_vms(teller);

    for (int tried = 0; tried <= 1; tried++) {
        for (guint i = 0; i < vms->len && !vg_thread_stopping(self); i++) {
            struct teller_vm *vm = vms->pdata[i];
            const struct vg_vm_here *here = teller_find(all, vm);
            if (!teller_is_due(teller, vm, here) || (vm->pause_ns > 0) != tried)
                continue;
            g_autoptr(GError) error = NULL;
            if (!vm->is_gone || !teller_has_group(vms, here))
                teller_tell(teller, vm, here->uuid, &error);
            if (!vg_thread_stopping(self))
                teller_note(teller, vm, error);
            vg_thread_beat(self);
        }
    }
    teller_forget(teller, vms, all);
}

static void
teller_run(vg_thread *self, void *arg)
{
    vg_proxy_teller *teller = arg;

    while (vg_thread_sleep_until(self, vg_clock_monotonic_ns() + TELLER_LOOK_NS)) {
        g_autoptr(GPtrArray) all = teller->parts.list_vms(teller->parts.data);
        /* Until libvirt has answered, nobody is known to run here, or not to. */
        if (!all)
            continue;
        teller_round(teller, self, all);
        teller_write(teller);
    }
}

/* ---- other threads ---- */

/* Keeps what is known of a VM whose group says the same as before. */
static struct teller_vm *
teller_take_over(const vg_proxy_teller *teller, const struct vg_proxy_config *proxy)
{
    struct teller_vm *vm = teller_vm_new(proxy->item.name, proxy->address, proxy->token_file);

    for (guint i = 0; i < teller->vms->len; i++) {
        const struct teller_vm *old = teller->vms->pdata[i];
        if (old->is_gone || strcmp(old->name, vm->name) != 0)
            continue;
        vm->uuid = g_strdup(old->uuid);
        vm->told_ns = old->told_ns;
        vm->may_know = old->may_know;
        if (strcmp(old->address, vm->address) == 0) {
            vm->is_told = old->is_told;
            vm->reason = g_strdup(old->reason);
            vm->id = old->id;
        }
    }
    return vm;
}

static bool
teller_has(const GPtrArray *vms, const char *name, const char *uuid)
{
    for (guint i = 0; i < vms->len; i++) {
        const struct teller_vm *vm = vms->pdata[i];
        if (vg_vm_is(vm->uuid, NULL, uuid) || vg_vm_is(vm->name, name, uuid))
            return true;
    }
    return false;
}

/* Adds a VM that was told, and has no group any more. */
static void
teller_add_gone(GPtrArray *vms, const char *name, const char *uuid)
{
    if (teller_has(vms, name, uuid))
        return;
    struct teller_vm *vm = teller_vm_new(uuid, TELLER_NONE, "");
    vm->uuid = g_strdup(uuid);
    vm->is_gone = true;
    g_ptr_array_add(vms, vm);
}

void
vg_proxy_teller_configure(vg_proxy_teller *teller, const GPtrArray *proxies)
{
    GPtrArray *vms = g_ptr_array_new_with_free_func(teller_vm_free);
    VG_LOCK_SCOPE(&teller->lock);

    for (guint i = 0; i < proxies->len; i++)
        g_ptr_array_add(vms, teller_take_over(teller, proxies->pdata[i]));
    for (guint i = 0; i < teller->vms->len; i++) {
        const struct teller_vm *old = teller->vms->pdata[i];
        if (old->uuid && (old->is_gone || old->may_know))
            teller_add_gone(vms, old->name, old->uuid);
    }
    g_ptr_array_unref(teller->vms);
    teller->vms = vms;
}

/* Adds those whom a vgpud before this one has told. */
static void
teller_add_past(vg_proxy_teller *teller)
{
    for (guint i = 0; i < teller->written->len; i++)
        teller_add_gone(teller->vms, NULL, teller->written->pdata[i]);
}

GPtrArray *
vg_proxy_teller_list(vg_proxy_teller *teller)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_proxy_guest_free);
    VG_LOCK_SCOPE(&teller->lock);

    for (guint i = 0; i < teller->vms->len; i++) {
        const struct teller_vm *vm = teller->vms->pdata[i];
        struct vg_proxy_guest *guest = vg_record_new(&vg_proxy_guest_record);
        guest->vm = g_strdup(vm->name);
        guest->uuid = g_strdup(vm->uuid ? vm->uuid : "");
        guest->address = g_strdup(vm->address);
        guest->told = vm->is_told;
        guest->told_ns = vm->is_told ? vm->told_ns : 0;
        guest->reason =
            g_strdup(vm->is_told  ? ""
                     : vm->reason ? vm->reason
                                  : "libvirt has not reported yet whether it runs here");
        g_ptr_array_add(list, guest);
    }
    return list;
}

static void
teller_wake(void *arg)
{
    vg_proxy_teller *teller = arg;

    atomic_store(&teller->cancel, true);
}

vg_proxy_teller *
vg_proxy_teller_new(const struct vg_proxy_teller_parts *parts, const GPtrArray *proxies,
                    GError **err)
{
    vg_proxy_teller *teller = g_new0(vg_proxy_teller, 1);

    teller->parts = *parts;
    teller->path = g_build_filename(parts->directory, VG_PROXY_TOLD_FILE, NULL);
    teller->vms = g_ptr_array_new_with_free_func(teller_vm_free);
    teller->written = g_ptr_array_new_with_free_func(g_free);
    pthread_mutex_init(&teller->lock, NULL);
    teller_read(teller);
    vg_proxy_teller_configure(teller, proxies);
    teller_add_past(teller);
    teller->thread = vg_thread_new("proxy-tell", teller_run, teller_wake, teller, err);
    if (teller->thread)
        return teller;
    vg_proxy_teller_free(teller);
    return NULL;
}

void
vg_proxy_teller_stop(vg_proxy_teller *teller)
{
    if (teller)
        vg_thread_join(teller->thread);
}

void
vg_proxy_teller_free(vg_proxy_teller *teller)
{
    if (!teller)
        return;
    vg_thread_free(teller->thread);
    g_ptr_array_unref(teller->vms);
    g_ptr_array_unref(teller->written);
    pthread_mutex_destroy(&teller->lock);
    g_free(teller->path);
    g_free(teller);
}
