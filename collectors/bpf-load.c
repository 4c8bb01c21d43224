/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/bpf-load.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <malloc.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/kvm-exit.h"
#include "collectors/vcpu.skel.h"
#include "host/pid-namespace.h"
#include "model/event.h"
#include "model/trouble.h"

/* The estimated cost of entering and leaving a program, in addition to what the program measures
 * itself. With it, a run of a program that has nothing to do costs 40 ns. The slowdown of a load
 * that is not watched (tools/bench live), at about three runs per operation, was 30 to 230 ns
 * each. */
#define DISPATCH_NS 25
/* The directory of KVM's tracepoints if KVM is a module. KVM may also be built in. */
#define KVM_MODULE "/sys/module/kvm"

#define KERNEL_TYPES "/sys/kernel/btf/vmlinux"

#define PROGRAMS_MAX 8

/* The kernel places the elements of a map at multiples of 8 bytes, as the compiler does here. */
#define THREADS_BYTES (VG_BPF_SLOTS * sizeof(struct vg_bpf_thread))
G_STATIC_ASSERT(sizeof(struct vg_bpf_thread) % 8 == 0);

/* A check so soon after the last one proves nothing: there may have been no switch since. */
#define CHECK_NS (50 * VG_NS_PER_MS)

struct vg_bpf {
    struct vcpu_bpf *skeleton;
    struct vg_bpf_memory memory;
    size_t cpus_bytes;
    struct ring_buffer *notes;
    void (*take)(void *data, const struct vg_bpf_note *note); /* while notes are taken */
    void *take_data;
    bool had_kvm;                 /* when the skeleton was loaded */
    uint32_t links[PROGRAMS_MAX]; /* ids in the order of the skeleton's programs; 0: none */
    uint64_t checked_events;      /* runs of the programs at the last check */
    int64_t checked_ns;
    uint64_t costed_events;
    uint64_t missed;
};

/* ---- loading ---- */

/* Returns whether sched_switch reports the state of the previous thread, as it does since 5.18. */
static bool
switch_has_state(const struct btf *btf)
{
    int32_t id = btf__find_by_name_kind(btf, "btf_trace_sched_switch", BTF_KIND_TYPEDEF);
    const struct btf_type *type = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;

    /* A pointer to a function of void *, preempt, prev, next and state. */
    for (int i = 0; i < 2 && type; i++)
        type = btf__type_by_id(btf, type->type);
    return type && btf_is_func_proto(type) && btf_vlen(type) >= 5;
}

/* Sets the programs' constants before they are loaded. */
static void
configure(struct vcpu_bpf *skeleton, struct btf *btf)
{
    struct vg_kvm_exit_place place = {0};

    skeleton->rodata->has_prev_state = switch_has_state(btf);
    if (!vg_kvm_exit_find(btf, &place))
        place.isa = 0;
    skeleton->rodata->exit_isa = place.isa;
    skeleton->rodata->exit_pointer_offset = place.pointer_offset;
    skeleton->rodata->exit_offset = place.offset;
    skeleton->rodata->exit_in_arguments = place.in_arguments;
    for (unsigned reason = 0; reason < 256; reason++) {
        skeleton->rodata->exit_classes[0][reason] = (uint8_t)vg_exit_class_of(place.isa, reason);
        skeleton->rodata->exit_classes[1][reason] =
            (uint8_t)vg_exit_class_of(place.isa, 0x400 + reason);
    }
}

static int
open_skeleton(vg_bpf *bpf, GError **err)
{
    struct btf *btf = btf__load_vmlinux_btf();

    /* libbpf 0.5 does not know the kinds of types that kernels have since 6.0. */
    if (!btf && access(KERNEL_TYPES, R_OK) == 0)
        return vg_error(err, VG_E_EXTERNAL,
                        "libbpf is too old for this kernel: it cannot read the kernel's type "
                        "information (" KERNEL_TYPES ")");
    if (!btf) {
        /* libbpf has ESRCH for this, which is "No such process". */
        vg_error(err, VG_E_EXTERNAL,
                 "the kernel has no type information (" KERNEL_TYPES ", CONFIG_DEBUG_INFO_BTF)");
        return vg_error_set_detail(err, VG_TROUBLE_BTF_ABSENT);
    }
    bpf->skeleton = vcpu_bpf__open();
    if (bpf->skeleton)
        configure(bpf->skeleton, btf);
    btf__free(btf);
    if (!bpf->skeleton)
        return vg_error_errno(err, errno, "cannot open the BPF programs");
    bpf->memory.n_cpus = (unsigned)libbpf_num_possible_cpus();
    int status = bpf_map__set_max_entries(bpf->skeleton->maps.cpus, bpf->memory.n_cpus);
    return status == 0
               ? 0
               : vg_error_errno(err, -status, "cannot set the size of the BPF programs' memory");
}

static int
refused(int status, GError **err)
{
    bool denied = status == -EPERM || status == -EACCES;

    vg_error_errno(err, -status, "the kernel rejects the BPF programs%s",
                   denied ? " (they need CAP_BPF and CAP_PERFMON, and a kernel that is not "
                            "locked down for confidentiality)"
                          : "");
    return vg_error_set_detail(err, denied ? VG_TROUBLE_BPF_DENIED : VG_TROUBLE_NONE);
}

/* Maps an array of the programs. Returns NULL and sets *err on failure. */
static void *
map_array(const struct bpf_map *map, size_t bytes, GError **err)
{
    void *array = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

    if (array != MAP_FAILED)
        return array;
    vg_error_errno(err, errno, "cannot map the BPF programs' memory");
    return NULL;
}

static int
map_memory(vg_bpf *bpf, GError **err)
{
    struct vcpu_bpf__bss *bss = bpf->skeleton->bss;
    size_t stride = (sizeof(struct vg_bpf_cpu) + 7) & ~(size_t)7;

    bpf->cpus_bytes = stride * bpf->memory.n_cpus;
    bpf->memory.cpus = map_array(bpf->skeleton->maps.cpus, bpf->cpus_bytes, err);
    if (!bpf->memory.cpus)
        return -1;
    bpf->memory.threads = map_array(bpf->skeleton->maps.threads, THREADS_BYTES, err);
    if (!bpf->memory.threads)
        return -1;
    bpf->memory.cpu_stride = stride;
    bpf->memory.tid_pages = bss->tid_pages;
    bpf->memory.tid_slots = bss->tid_slots;
    bpf->memory.names = bss->names;
    return 0;
}

static int
take_note(void *data, void *note, size_t size)
{
    const vg_bpf *bpf = data;

    if (size >= sizeof(struct vg_bpf_note))
        bpf->take(bpf->take_data, note);
    return 0;
}

static uint32_t
link_id(const struct bpf_link *link)
{
    struct bpf_link_info info = {0};
    uint32_t size = sizeof(info);

    return link && bpf_obj_get_info_by_fd(bpf_link__fd(link), &info, &size) == 0 ? info.id : 0;
}

/* Returns the link of a program. The skeleton's link pointers are adjacent, in the order of its
 * programs. */
static struct bpf_link **
link_at(const vg_bpf *bpf, unsigned i)
{
    return bpf->skeleton->skeleton->progs[i].link;
}

static void
remember_links(vg_bpf *bpf)
{
    for (int i = 0; i < bpf->skeleton->skeleton->prog_cnt && i < PROGRAMS_MAX; i++)
        bpf->links[i] = link_id(*link_at(bpf, (unsigned)i));
}

static bool
has_kvm(void)
{
    return access(KVM_MODULE, F_OK) == 0;
}

/* Attaches all programs except those of KVM. libbpf's own function cannot omit programs before
 * 1.0. */
static int
bpf_attach(vg_bpf *bpf)
{
    const struct bpf_object_skeleton *s = bpf->skeleton->skeleton;

    for (int i = 0; i < s->prog_cnt; i++) {
        struct bpf_program *program = *s->progs[i].prog;
        if (program == bpf->skeleton->progs.vg_kvm_entry ||
            program == bpf->skeleton->progs.vg_kvm_exit)
            continue;
        *link_at(bpf, (unsigned)i) = bpf_program__attach(program);
        if (!*link_at(bpf, (unsigned)i))
            return -errno;
    }
    return 0;
}

static int
bpf_load(vg_bpf *bpf, const char *proc, GError **err)
{
    if (vg_pid_namespace_check(proc, err) < 0 || open_skeleton(bpf, err) < 0)
        return -1;
    int status = vcpu_bpf__load(bpf->skeleton);
    if (status == 0)
        status = bpf_attach(bpf);
    /* Return the memory of the kernel's type information to the system. It takes megabytes, but
     * only for a moment. */
    malloc_trim(0);
    if (status < 0)
        return refused(status, err);
    if (map_memory(bpf, err) < 0)
        return -1;
    bpf->notes = ring_buffer__new(bpf_map__fd(bpf->skeleton->maps.notes), take_note, bpf, NULL);
    if (!bpf->notes)
        return vg_error_errno(err, errno, "cannot map the BPF programs' ring buffer");
    bpf->had_kvm = has_kvm();
    bpf->checked_ns = vg_clock_monotonic_ns();
    remember_links(bpf);
    return bpf->had_kvm ? vg_bpf_see_guests(bpf, true, err) : 0;
}

vg_bpf *
vg_bpf_load(const char *proc, GError **err)
{
    vg_bpf *bpf = g_new0(vg_bpf, 1);

#if !defined(LIBBPF_MAJOR_VERSION) || LIBBPF_MAJOR_VERSION < 1
    /* Makes functions fail as in libbpf 1.0. */
    libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
#endif
    /* Errors contain libbpf's messages. */
    libbpf_set_print(NULL);
    if (bpf_load(bpf, proc, err) == 0)
        return bpf;
    vg_bpf_free(bpf);
    return NULL;
}

void
vg_bpf_free(vg_bpf *bpf)
{
    if (!bpf)
        return;
    if (bpf->memory.cpus)
        munmap(bpf->memory.cpus, bpf->cpus_bytes);
    if (bpf->memory.threads)
        munmap(bpf->memory.threads, THREADS_BYTES);
    ring_buffer__free(bpf->notes);
    /* If another process closed a link, its number may belong to another file by now. */
    for (int i = 0; bpf->skeleton && i < bpf->skeleton->skeleton->prog_cnt; i++) {
        struct bpf_link *link = *link_at(bpf, (unsigned)i);
        if (link && i < PROGRAMS_MAX && link_id(link) != bpf->links[i])
            bpf_link__disconnect(link);
    }
    vcpu_bpf__destroy(bpf->skeleton);
    g_free(bpf);
}

/* ---- what is in there ---- */

const struct vg_bpf_memory *
vg_bpf_memory(const vg_bpf *bpf)
{
    return &bpf->memory;
}

const struct vg_bpf_totals *
vg_bpf_totals(const vg_bpf *bpf)
{
    return &bpf->skeleton->bss->totals;
}

int
vg_bpf_cells_fd(const vg_bpf *bpf)
{
    return bpf_map__fd(bpf->skeleton->maps.cells);
}

int
vg_bpf_notes_fd(const vg_bpf *bpf)
{
    return ring_buffer__epoll_fd(bpf->notes);
}

void
vg_bpf_take_notes(vg_bpf *bpf, void (*take)(void *data, const struct vg_bpf_note *note), void *data)
{
    bpf->take = take;
    bpf->take_data = data;
    ring_buffer__consume(bpf->notes);
}

static const struct vg_bpf_cpu *
cpu_at(const vg_bpf *bpf, unsigned cpu)
{
    return (const void *)((const char *)bpf->memory.cpus + cpu * bpf->memory.cpu_stride);
}

static uint64_t
count_events(const vg_bpf *bpf)
{
    uint64_t events = 0;

    for (unsigned i = 0; i < bpf->memory.n_cpus; i++)
        events += __atomic_load_n(&cpu_at(bpf, i)->events, __ATOMIC_RELAXED);
    return events;
}

int
vg_bpf_check(vg_bpf *bpf, GError **err)
{
    const struct bpf_object_skeleton *s = bpf->skeleton->skeleton;
    uint64_t events = count_events(bpf);

    for (int i = 0; i < s->prog_cnt && i < PROGRAMS_MAX; i++) {
        if (bpf->links[i] && link_id(*link_at(bpf, (unsigned)i)) != bpf->links[i])
            return vg_error(err, VG_E_EXTERNAL,
                            "the BPF program %s was detached by another "
                            "process",
                            s->progs[i].name);
    }
    int64_t now_ns = vg_clock_monotonic_ns();
    if (now_ns - bpf->checked_ns < CHECK_NS)
        return 0;
    /* There was at least one switch: to this thread. */
    if (events == bpf->checked_events)
        return vg_error(err, VG_E_EXTERNAL, "the kernel no longer calls the BPF programs");
    bpf->checked_events = events;
    bpf->checked_ns = now_ns;
    return 0;
}

bool
vg_bpf_sees_guests(const vg_bpf *bpf)
{
    return bpf->skeleton->links.vg_kvm_entry != NULL;
}

bool
vg_bpf_could_see_guests(const vg_bpf *bpf)
{
    return !bpf->had_kvm && has_kvm();
}

const char *
vg_bpf_exits_lack(const vg_bpf *bpf)
{
    return vg_bpf_sees_guests(bpf) && bpf->skeleton->rodata->exit_isa == 0
               ? "exits are counted without their reasons: the kernel has no type information of "
                 "the "
                 "KVM modules (CONFIG_DEBUG_INFO_BTF_MODULES)"
               : NULL;
}

int
vg_bpf_see_guests(vg_bpf *bpf, bool see, GError **err)
{
    struct vcpu_bpf *s = bpf->skeleton;
    int status = 0;

    if (see == vg_bpf_sees_guests(bpf) || (see && !bpf->had_kvm))
        return 0;
    if (see) {
        s->links.vg_kvm_entry = bpf_program__attach(s->progs.vg_kvm_entry);
        s->links.vg_kvm_exit =
            s->links.vg_kvm_entry ? bpf_program__attach(s->progs.vg_kvm_exit) : NULL;
        if (!s->links.vg_kvm_exit)
            status = -errno;
    }
    if (!see || status < 0) {
        bpf_link__destroy(g_steal_pointer(&s->links.vg_kvm_entry));
        bpf_link__destroy(g_steal_pointer(&s->links.vg_kvm_exit));
    }
    remember_links(bpf);
    return status == 0 || status == -ENOENT ? 0 : refused(status, err);
}

int64_t
vg_bpf_take_cost(vg_bpf *bpf)
{
    uint64_t events = count_events(bpf), timed = 0, timed_ns = 0;

    for (unsigned i = 0; i < bpf->memory.n_cpus; i++) {
        timed += cpu_at(bpf, i)->timed;
        timed_ns += cpu_at(bpf, i)->timed_ns;
    }
    uint64_t fresh = events - bpf->costed_events;
    bpf->costed_events = events;
    return (int64_t)(fresh * (DISPATCH_NS + (timed > 0 ? timed_ns / timed : 0)));
}

uint64_t
vg_bpf_take_missed(vg_bpf *bpf)
{
    const struct bpf_object_skeleton *s = bpf->skeleton->skeleton;
    uint64_t missed = 0;

    for (int i = 0; i < s->prog_cnt; i++) {
        struct bpf_prog_info info = {0};
        uint32_t size = sizeof(info);
        if (bpf_obj_get_info_by_fd(bpf_program__fd(*s->progs[i].prog), &info, &size) == 0)
            missed += info.recursion_misses;
    }
    uint64_t fresh = missed - bpf->missed;
    bpf->missed = missed;
    return fresh;
}
