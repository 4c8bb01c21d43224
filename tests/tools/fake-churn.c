/* SPDX-License-Identifier: Apache-2.0
 *
 * VMs that come and go: some of so many are there in each window, and only the first always. They
 * come back as other processes, now and then under another name, and what each waits is lost to
 * others of the window and to the host.
 */
#include "config.h"

#include "model/lost-series.h"
#include "model/window-sum.h"
#include "tests/tools/fake-private.h"

/* So many at once, of more. */
#define LIVE 12

/* Fewer than there are at once, so that some have no series of their own. */
#define AGGRESSORS 4

struct guest {
    uint32_t id;   /* of its process; 0: it is not there */
    uint32_t life; /* of its name; its UUID tells it, so that no two have the same labels */
    bool renamed;
};

struct fake_churn {
    struct guest *guests;
    guint n;
    guint live;
    uint32_t ids, lives;
    uint32_t random;
    struct vg_window totals;
    vg_lost_series *lost_series;
};

struct fake_churn *
fake_churn_new(int64_t vms)
{
    struct fake_churn *churn = g_new0(struct fake_churn, 1);

    churn->n = (guint)vms;
    churn->guests = g_new0(struct guest, churn->n);
    churn->random = 1;
    churn->guests[0] = (struct guest){.id = ++churn->ids};
    churn->live = 1;
    vg_window_init(&churn->totals, false);
    churn->lost_series = vg_lost_series_new(AGGRESSORS);
    return churn;
}

void
fake_churn_free(struct fake_churn *churn)
{
    if (!churn)
        return;
    vg_window_clear(&churn->totals);
    vg_lost_series_free(churn->lost_series);
    g_free(churn->guests);
    g_free(churn);
}

static uint32_t
fake_churn_pick(struct fake_churn *churn, uint32_t below)
{
    churn->random = churn->random * 1664525 + 1013904223;
    return (churn->random >> 8) % below;
}

/* One that is there, or is not; never the first, which stays. */
static struct guest *
fake_churn_any(struct fake_churn *churn, bool is_there)
{
    for (;;) {
        struct guest *guest = &churn->guests[1 + fake_churn_pick(churn, churn->n - 1)];
        if ((guest->id != 0) == is_there)
            return guest;
    }
}

/* One goes, others come, one has another name. */
static void
fake_churn_change(struct fake_churn *churn)
{
    if (churn->live == LIVE) {
        fake_churn_any(churn, true)->id = 0;
        churn->live--;
    }
    while (churn->live < LIVE) {
        *fake_churn_any(churn, false) = (struct guest){.id = ++churn->ids, .life = ++churn->lives};
        churn->live++;
    }
    struct guest *guest = fake_churn_any(churn, true);
    if (fake_churn_pick(churn, 4) == 0) {
        guest->renamed = !guest->renamed;
        guest->life = ++churn->lives;
    }
}

static void
fake_churn_lose(struct fake_churn *churn, struct vg_vm_sample *vm, enum vg_aggressor_kind kind,
                uint32_t id)
{
    const int64_t ns = (int64_t)fake_churn_pick(churn, 100) * VG_NS_PER_MS;
    const struct vg_lost_to lost = {.kind = kind, .vm_id = id, .ns = ns, .count = 1};

    g_array_append_val(vm->lost_to, lost);
    *(kind == VG_AGGRESSOR_VM ? &vm->cpu.preempt_ns : &vm->cpu.wake_wait_ns) += ns;
    vm->cpu.observed_ns += ns;
}

static void
fake_churn_add(struct fake_churn *churn, struct vg_window *window, guint i)
{
    const struct guest *guest = &churn->guests[i];
    struct vg_vm_sample vm;

    vg_vm_sample_init(&vm);
    vm.id = guest->id;
    vm.pid = (int32_t)(1000 + guest->id);
    g_snprintf(vm.name, sizeof(vm.name), guest->renamed ? "other-%u" : "vm-%u", i);
    g_snprintf(vm.uuid, sizeof(vm.uuid), FAKE_UUID, guest->life);
    for (guint other = 0; other < churn->n; other++) {
        if (other != i && churn->guests[other].id)
            fake_churn_lose(churn, &vm, VG_AGGRESSOR_VM, churn->guests[other].id);
    }
    fake_churn_lose(churn, &vm, VG_AGGRESSOR_HOST_USER, 0);
    fake_churn_lose(churn, &vm, VG_AGGRESSOR_HOST_UNKNOWN, 0);
    g_array_append_val(window->vms, vm);
}

void
fake_churn_step(struct fake_churn *churn, vg_view *view, struct vg_snap_host *host)
{
    fake_churn_change(churn);
    for (guint i = 0; i < churn->n; i++) {
        if (churn->guests[i].id)
            fake_churn_add(churn, &view->newest, i);
    }
    vg_window_add_live(&churn->totals, &view->newest);
    vg_lost_series_step(churn->lost_series, &view->newest, false);
    view->lost_series = vg_lost_series_list(churn->lost_series);
    vg_window_clear(&view->totals);
    vg_window_copy(&view->totals, &churn->totals);
    for (guint i = 0; i < view->newest.vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(view->newest.vms, struct vg_vm_sample, i);
        struct vg_snap_vm *snap = vg_snap_host_add_vm(host, vm->name);
        snap->uuid = g_strdup(vm->uuid);
        snap->pid = vm->pid;
        snap->vcpus = 1;
    }
}
