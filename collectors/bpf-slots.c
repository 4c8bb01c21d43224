/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/bpf-slots.h"

#include <string.h>

/* The number of calls of settle for which a withdrawn slot waits. */
#define QUARANTINE 2

struct withdrawn {
    uint32_t slot;
    unsigned settles;
};

struct vg_bpf_slots {
    struct vg_bpf_memory memory;
    GArray *free_slots;    /* uint32_t */
    GArray *free_pages;    /* uint16_t */
    GArray *withdrawn;     /* struct withdrawn, oldest first */
    uint8_t *tids_of_page; /* [VG_BPF_PAGES]: number of watched threads in each page */
    unsigned used;
};

vg_bpf_slots *
vg_bpf_slots_new(const struct vg_bpf_memory *memory)
{
    vg_bpf_slots *slots = g_new0(vg_bpf_slots, 1);

    slots->memory = *memory;
    slots->free_slots = g_array_sized_new(FALSE, FALSE, sizeof(uint32_t), VG_BPF_SLOTS);
    slots->free_pages = g_array_sized_new(FALSE, FALSE, sizeof(uint16_t), VG_BPF_PAGES);
    slots->withdrawn = g_array_new(FALSE, FALSE, sizeof(struct withdrawn));
    slots->tids_of_page = g_new0(uint8_t, VG_BPF_PAGES);
    /* Add the highest ones first, so that low slots are used first and the rest of the memory is
     * not touched. */
    for (uint32_t slot = VG_BPF_SLOTS - 1; slot > 0; slot--)
        g_array_append_val(slots->free_slots, slot);
    for (uint16_t page = VG_BPF_PAGES - 1; page > 0; page--)
        g_array_append_val(slots->free_pages, page);
    return slots;
}

void
vg_bpf_slots_free(vg_bpf_slots *slots)
{
    if (!slots)
        return;
    g_array_unref(slots->free_slots);
    g_array_unref(slots->free_pages);
    g_array_unref(slots->withdrawn);
    g_free(slots->tids_of_page);
    g_free(slots);
}

/* Makes a thread's record visible, after everything else in it has been written. */
static void
map_tid(vg_bpf_slots *slots, int32_t tid, uint32_t slot)
{
    uint16_t *page_of = &slots->memory.tid_pages[tid / VG_BPF_PAGE_TIDS];
    uint16_t page = *page_of;

    if (!page) {
        /* There are as many pages as slots, so there is one. */
        page = g_array_index(slots->free_pages, uint16_t, slots->free_pages->len - 1);
        g_array_set_size(slots->free_pages, slots->free_pages->len - 1);
    }
    slots->tids_of_page[page]++;
    __atomic_store_n(&slots->memory.tid_slots[page][tid % VG_BPF_PAGE_TIDS], (uint16_t)slot,
                     __ATOMIC_RELEASE);
    __atomic_store_n(page_of, page, __ATOMIC_RELEASE);
}

static void
unmap_tid(vg_bpf_slots *slots, int32_t tid)
{
    uint16_t *page_of = &slots->memory.tid_pages[tid / VG_BPF_PAGE_TIDS];
    uint16_t page = *page_of;

    __atomic_store_n(&slots->memory.tid_slots[page][tid % VG_BPF_PAGE_TIDS], 0, __ATOMIC_RELEASE);
    if (--slots->tids_of_page[page] > 0)
        return;
    /* If the page is reused immediately, a program that has just read its number may find another
     * thread's slot in it. The record then shows whose slot it is. */
    __atomic_store_n(page_of, 0, __ATOMIC_RELEASE);
    g_array_append_val(slots->free_pages, page);
}

uint32_t
vg_bpf_slots_publish(vg_bpf_slots *slots, int32_t tid, uint32_t vm, bool is_vcpu)
{
    if (slots->free_slots->len == 0 || tid <= 0 || tid >= VG_BPF_TID_LIMIT)
        return 0;
    uint32_t slot = g_array_index(slots->free_slots, uint32_t, slots->free_slots->len - 1);
    g_array_set_size(slots->free_slots, slots->free_slots->len - 1);
    struct vg_bpf_thread *thread = &slots->memory.threads[slot];
    memset(thread, 0, sizeof(*thread));
    thread->tid = tid;
    thread->vm = vm;
    thread->is_vcpu = is_vcpu;
    map_tid(slots, tid, slot);
    slots->used++;
    return slot;
}

void
vg_bpf_slots_withdraw(vg_bpf_slots *slots, uint32_t slot)
{
    struct withdrawn withdrawn = {.slot = slot};

    unmap_tid(slots, slots->memory.threads[slot].tid);
    g_array_append_val(slots->withdrawn, withdrawn);
    slots->used--;
}

/* Ends the wait of a record that no program writes to any more. Otherwise it would wait for a CPU
 * indefinitely. */
static void
stop_waiting(vg_bpf_slots *slots, const struct vg_bpf_thread *thread)
{
    bool waits = thread->state == VG_BPF_WAIT_PREEMPT || thread->state == VG_BPF_WAIT_WAKE;

    if (!waits || thread->cpu < 0 || (unsigned)thread->cpu >= slots->memory.n_cpus)
        return;
    void *at = (char *)slots->memory.cpus + (size_t)thread->cpu * slots->memory.cpu_stride;
    struct vg_bpf_cpu *cpu = at;
    __atomic_fetch_sub(&cpu->waiters, 1, __ATOMIC_RELAXED);
}

void
vg_bpf_slots_settle(vg_bpf_slots *slots, void (*told)(void *data, uint32_t slot), void *data)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < slots->withdrawn->len; i++) {
        struct withdrawn *withdrawn = &g_array_index(slots->withdrawn, struct withdrawn, i);
        if (++withdrawn->settles < QUARANTINE) {
            g_array_index(slots->withdrawn, struct withdrawn, kept++) = *withdrawn;
            continue;
        }
        stop_waiting(slots, &slots->memory.threads[withdrawn->slot]);
        told(data, withdrawn->slot);
        g_array_append_val(slots->free_slots, withdrawn->slot);
    }
    g_array_set_size(slots->withdrawn, kept);
}

unsigned
vg_bpf_slots_used(const vg_bpf_slots *slots)
{
    return slots->used;
}
