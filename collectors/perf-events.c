/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/perf-events.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "collectors/perf-ring.h"
#include "host/proc-text.h"
#include "model/trouble.h"

#define RING_BYTES_MIN (16 * 1024)

#define ONLINE_FILE "/sys/devices/system/cpu/online"

struct cpu {
    int32_t index;
    void *mapped; /* NULL: not mapped */
    size_t mapped_bytes;
    unsigned n_fds;
    int fds[]; /* of the tracepoints, then of arrivals; -1: not open */
};

struct vg_perf_events {
    vg_perf_merge *merge;
    struct vg_perf_set set;
    int epoll_fd;
    uint16_t ids[VG_PERF_TRACEPOINTS_MAX]; /* 0: unknown */
    bool optional;                         /* optional events are enabled */
    bool has_optional;
    bool arrivals;
    bool counts_lost; /* the kernel supports PERF_FORMAT_LOST */
    size_t ring_bytes;
    GPtrArray *cpus; /* struct cpu, owned */
    char online[VG_PROC_TEXT_MAX];
};

/* Returns the index of the arrivals event among a CPU's events. The index is reserved even if the
 * event is not open. */
static size_t
arrivals_of(const vg_perf_events *events)
{
    return events->set.n;
}

/* ---- one event ---- */

static int
refused(int errnum, int32_t cpu, unsigned of_a_cpu, GError **err)
{
    if (errnum == EPERM || errnum == EACCES) {
        vg_error_errno(err, errnum,
                       "the kernel forbids system-wide perf events (they need CAP_PERFMON, or "
                       "kernel.perf_event_paranoid=-1)");
        return vg_error_set_detail(err, VG_TROUBLE_PERF_DENIED);
    }
    if (errnum == EMFILE)
        return vg_error_errno(
            err, errnum,
            "cannot open perf events of CPU %d (each CPU needs %u files; raise LimitNOFILE=)", cpu,
            of_a_cpu);
    return vg_error_errno(err, errnum, "cannot open perf events of CPU %d", cpu);
}

static int
open_event(vg_perf_events *events, struct cpu *cpu, size_t which, GError **err)
{
    bool is_arrivals = which == arrivals_of(events);
    struct perf_event_attr attr = {
        .size = sizeof(attr),
        .type = is_arrivals ? PERF_TYPE_SOFTWARE : PERF_TYPE_TRACEPOINT,
        .config = is_arrivals ? PERF_COUNT_SW_DUMMY : events->ids[which],
        .sample_period = 1,
        .sample_type = VG_PERF_SAMPLE_TYPE,
        .read_format = events->counts_lost ? PERF_FORMAT_LOST : 0,
        .disabled = 1,
        .sample_id_all = 1,
        .context_switch = is_arrivals,
        .watermark = 1,
        .wakeup_watermark = (uint32_t)events->ring_bytes / 4,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
    };
    long fd = syscall(SYS_perf_event_open, &attr, -1, cpu->index, -1, PERF_FLAG_FD_CLOEXEC);

    if (fd < 0 && errno == EINVAL && events->counts_lost) {
        events->counts_lost = false;
        return open_event(events, cpu, which, err);
    }
    if (fd < 0)
        return refused(errno, cpu->index, cpu->n_fds, err);
    cpu->fds[which] = (int)fd;
    if (which > 0 && ioctl(cpu->fds[which], PERF_EVENT_IOC_SET_OUTPUT, cpu->fds[0]) < 0)
        return vg_error_errno(err, errno, "cannot redirect an event to the ring buffer of CPU %d",
                              cpu->index);
    return 0;
}

/* ---- one CPU ---- */

static void
cpu_free(void *data)
{
    struct cpu *cpu = data;

    for (size_t i = cpu->n_fds; i > 0; i--) {
        if (cpu->fds[i - 1] >= 0)
            close(cpu->fds[i - 1]);
    }
    if (cpu->mapped)
        munmap(cpu->mapped, cpu->mapped_bytes);
    g_free(cpu);
}

/* Maps a ring, halving its size until the kernel accepts it. Rings mapped later start at the
 * reduced size. */
static int
map_ring(vg_perf_events *events, struct cpu *cpu, size_t page_bytes, GError **err)
{
    for (;; events->ring_bytes /= 2) {
        cpu->mapped_bytes = page_bytes + events->ring_bytes;
        void *mapped =
            mmap(NULL, cpu->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, cpu->fds[0], 0);
        if (mapped != MAP_FAILED) {
            cpu->mapped = mapped;
            return 0;
        }
        if ((errno != EPERM && errno != ENOMEM) ||
            events->ring_bytes / 2 < MAX(RING_BYTES_MIN, page_bytes)) {
            vg_error_errno(err, errno,
                           "cannot map the ring buffer of CPU %d (grant CAP_IPC_LOCK, or raise "
                           "LimitMEMLOCK= or kernel.perf_event_mlock_kb)",
                           cpu->index);
            return vg_error_set_detail(err, VG_TROUBLE_PERF_MEMORY);
        }
    }
}

static int
enable(const struct cpu *cpu, size_t which, bool on, GError **err)
{
    if (cpu->fds[which] < 0 ||
        ioctl(cpu->fds[which], on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0) == 0)
        return 0;
    return vg_error_errno(err, errno, "cannot switch a perf event of CPU %d %s", cpu->index,
                          on ? "on" : "off");
}

static int
enable_cpu(const vg_perf_events *events, const struct cpu *cpu, GError **err)
{
    for (size_t i = 0; i < cpu->n_fds; i++) {
        bool on = i == arrivals_of(events)
                      ? events->arrivals
                      : !events->set.tracepoints[i].optional || events->optional;
        if (on && enable(cpu, i, true, err) < 0)
            return -1;
    }
    return 0;
}

static int
fill_cpu(vg_perf_events *events, struct cpu *cpu, GError **err)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    struct epoll_event ready = {.events = EPOLLIN};

    if (open_event(events, cpu, 0, err) < 0 || map_ring(events, cpu, page_bytes, err) < 0)
        return -1;
    for (size_t i = 1; i < cpu->n_fds; i++) {
        bool wanted = i == arrivals_of(events) ? events->set.arrivals : events->ids[i] != 0;
        if (wanted && open_event(events, cpu, i, err) < 0)
            return -1;
    }
    if (epoll_ctl(events->epoll_fd, EPOLL_CTL_ADD, cpu->fds[0], &ready) < 0)
        return vg_error_errno(err, errno, "cannot wait for the ring buffer of CPU %d", cpu->index);
    return enable_cpu(events, cpu, err);
}

static int
add_cpu(vg_perf_events *events, int32_t index, GError **err)
{
    unsigned n_fds = (unsigned)events->set.n + 1;
    struct cpu *cpu = g_malloc0(sizeof(*cpu) + n_fds * sizeof(cpu->fds[0]));

    cpu->index = index;
    cpu->n_fds = n_fds;
    for (size_t i = 0; i < n_fds; i++)
        cpu->fds[i] = -1;
    if (fill_cpu(events, cpu, err) < 0) {
        cpu_free(cpu);
        return -1;
    }
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    g_ptr_array_add(events->cpus, cpu);
    vg_perf_merge_add_cpu(events->merge, index, cpu->mapped, page_bytes,
                          cpu->mapped_bytes - page_bytes);
    return 0;
}

/* ---- all CPUs ---- */

/* Reads the CPUs of a list like "0-3,8,10-11". */
static int
read_list(const char *list, GArray *ret, GError **err)
{
    for (const char *at = list; *at && *at != '\n';) {
        char *end;
        guint64 first = g_ascii_strtoull(at, &end, 10), last = first;
        bool good = end != at;
        if (good && *end == '-') {
            at = end + 1;
            last = g_ascii_strtoull(at, &end, 10);
            good = end != at;
        }
        if (!good || last < first || last >= VG_CPU_LIMIT)
            return vg_error(err, VG_E_INVALID,
                            "'" ONLINE_FILE "' contains '%s', which is not a list of CPUs", list);
        for (int32_t cpu = (int32_t)first; cpu <= (int32_t)last; cpu++)
            g_array_append_val(ret, cpu);
        at = *end == ',' ? end + 1 : end;
    }
    return 0;
}

static bool
has(const GArray *list, int32_t cpu)
{
    for (unsigned i = 0; i < list->len; i++) {
        if (g_array_index(list, int32_t, i) == cpu)
            return true;
    }
    return false;
}

static struct cpu *
find_cpu(const vg_perf_events *events, int32_t index)
{
    for (unsigned i = 0; i < events->cpus->len; i++) {
        struct cpu *cpu = events->cpus->pdata[i];
        if (cpu->index == index)
            return cpu;
    }
    return NULL;
}

int
vg_perf_events_follow_cpus(vg_perf_events *events, GError **err)
{
    char text[VG_PROC_TEXT_MAX];
    g_autoptr(GArray) online = g_array_new(FALSE, FALSE, sizeof(int32_t));

    if (vg_proc_read(ONLINE_FILE, text, sizeof(text)) <= 0)
        return vg_error_errno(err, errno, "cannot read '%s'", ONLINE_FILE);
    if (strcmp(text, events->online) == 0)
        return 0;
    if (read_list(text, online, err) < 0)
        return -1;
    for (unsigned i = events->cpus->len; i > 0; i--) {
        const struct cpu *cpu = events->cpus->pdata[i - 1];
        if (has(online, cpu->index))
            continue;
        vg_perf_merge_remove_cpu(events->merge, cpu->index);
        g_ptr_array_remove_index_fast(events->cpus, i - 1);
    }
    while (events->ring_bytes > RING_BYTES_MIN &&
           events->ring_bytes * online->len > events->set.all_bytes)
        events->ring_bytes /= 2;
    for (unsigned i = 0; i < online->len; i++) {
        int32_t cpu = g_array_index(online, int32_t, i);
        if (!find_cpu(events, cpu) && add_cpu(events, cpu, err) < 0)
            return -1;
    }
    g_strlcpy(events->online, text, sizeof(events->online));
    return 0;
}

/* ---- tracepoints ---- */

static int
read_format(const char *root, const struct vg_perf_tracepoint *tracepoint, vg_perf_format **ret,
            GError **err)
{
    g_autofree char *path = g_strdup_printf("%s/events/%s/format", root, tracepoint->path);
    g_autofree char *text = g_malloc(VG_PERF_FORMAT_MAX);

    if (vg_proc_read(path, text, VG_PERF_FORMAT_MAX) <= 0)
        return tracepoint->optional ? 0 : vg_error_errno(err, errno, "cannot read '%s'", path);
    *ret = vg_perf_format_parse(text, path, err);
    return *ret ? 0 : -1;
}

static int
read_formats(vg_perf_events *events, const char *root, GError **err)
{
    for (size_t i = 0; i < events->set.n; i++) {
        const struct vg_perf_tracepoint *tracepoint = &events->set.tracepoints[i];
        vg_perf_format *format = NULL;
        if (read_format(root, tracepoint, &format, err) < 0)
            return -1;
        if (!format)
            continue;
        events->ids[i] = vg_perf_format_id(format);
        events->has_optional |= tracepoint->optional;
        vg_perf_merge_add_format(events->merge, format);
    }
    return 0;
}

vg_perf_events *
vg_perf_events_open(vg_perf_merge *merge, const char *tracefs, const struct vg_perf_set *set,
                    bool with_optional, GError **err)
{
    g_autoptr(vg_perf_events) events = g_new0(vg_perf_events, 1);

    if (set->n == 0 || set->n > VG_PERF_TRACEPOINTS_MAX)
        vg_bug("a set of %zu tracepoints", set->n);
    events->merge = merge;
    events->set = *set;
    events->cpus = g_ptr_array_new_with_free_func(cpu_free);
    events->ring_bytes = set->ring_bytes;
    events->counts_lost = true;
    events->arrivals = set->arrivals;
    events->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (events->epoll_fd < 0) {
        vg_error_errno(err, errno, "cannot wait for ring buffers");
        return NULL;
    }
    if (read_formats(events, tracefs, err) < 0)
        return NULL;
    events->optional = with_optional && events->has_optional;
    if (vg_perf_events_follow_cpus(events, err) < 0)
        return NULL;
    return g_steal_pointer(&events);
}

void
vg_perf_events_free(vg_perf_events *events)
{
    if (!events)
        return;
    for (unsigned i = 0; i < events->cpus->len; i++)
        vg_perf_merge_remove_cpu(events->merge, ((struct cpu *)events->cpus->pdata[i])->index);
    g_ptr_array_unref(events->cpus);
    if (events->epoll_fd >= 0)
        close(events->epoll_fd);
    g_free(events);
}

/* ---- in use ---- */

int
vg_perf_events_fd(const vg_perf_events *events)
{
    return events->epoll_fd;
}

static int
switch_all(const vg_perf_events *events, size_t which, bool on, GError **err)
{
    for (unsigned i = 0; i < events->cpus->len; i++) {
        if (enable(events->cpus->pdata[i], which, on, err) < 0)
            return -1;
    }
    return 0;
}

bool
vg_perf_events_see_optional(const vg_perf_events *events)
{
    return events->optional;
}

int
vg_perf_events_switch_optional(vg_perf_events *events, bool on, GError **err)
{
    if (on == events->optional || !events->has_optional)
        return 0;
    for (size_t i = 0; i < events->set.n; i++) {
        if (events->set.tracepoints[i].optional && switch_all(events, i, on, err) < 0)
            return -1;
    }
    events->optional = on;
    return 0;
}

bool
vg_perf_events_see_arrivals(const vg_perf_events *events)
{
    return events->arrivals;
}

int
vg_perf_events_switch_arrivals(vg_perf_events *events, bool on, GError **err)
{
    if (on != events->arrivals && switch_all(events, arrivals_of(events), on, err) < 0)
        return -1;
    events->arrivals = on;
    return 0;
}

uint64_t
vg_perf_events_lost(void *data, int32_t cpu)
{
    const vg_perf_events *events = data;
    const struct cpu *of = find_cpu(events, cpu);
    struct {
        uint64_t value, lost;
    } reading;
    uint64_t lost = 0;

    for (size_t i = 0; of && events->counts_lost && i < of->n_fds; i++) {
        if (of->fds[i] >= 0 && read(of->fds[i], &reading, sizeof(reading)) == sizeof(reading))
            lost += reading.lost;
    }
    return lost;
}
