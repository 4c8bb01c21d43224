/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/perf-rings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/mount.h>
#include <linux/perf_event.h>

#include "guest/util.h"

#define ONLINE "/sys/devices/system/cpu/online"
/* The group of an agent's probes. The agent's pid follows, and the number of the namespace in which
 * it has this pid. */
#define GROUP "vgpu_guestd_"
/* The number of attempts to define a probe that others remove. */
#define TRIES 10

enum {
    /* The sizes of rings in bytes, which are powers of two. A mapping has up to RECORD_MAX bytes,
     * usually 120, and a starting program makes about six. A call has up to 88 bytes. */
    MAPPED_RING = 256 << 10,
    CALLED_RING = 128 << 10,
    RECORD_MAX = 4096 + 128,
    /* If less space than this was left at a check, records may have been dropped. */
    CALL_ROOM = 128,
    /* The bytes before the values in a tracepoint's record: four common fields, and the address of
     * the probe. */
    VALUES_AT = 16,
    CPUS_MAX = 1024,
};

struct ring {
    int fd;
    struct perf_event_mmap_page *page;
    size_t size;
};

/* A probe on one CPU. */
struct probe {
    uint64_t id;
    uint32_t mark;
    int fd;
};

struct vg_perf_rings {
    /* The directory of tracefs. */
    int tracing;
    char online[256];
    size_t n_cpus;
    int cpus[CPUS_MAX];
    struct ring mapped[CPUS_MAX], called[CPUS_MAX];
    /* Sorted by id, since the kernel assigns ascending ids. */
    size_t n_probes;
    struct probe *probes;
};

static int
perf_open(struct perf_event_attr *attr, int cpu)
{
    attr->size = sizeof *attr;
    return (int)syscall(SYS_perf_event_open, attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Parses a list such as "0-3,8". */
static size_t
perf_parse_cpus(const char *text, int *ret, size_t max)
{
    size_t n = 0;

    while (*text) {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (end == text)
            break;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (; first <= last && n < max; first++)
            ret[n++] = (int)first;
        text = *end == ',' ? end + 1 : end;
    }
    return n;
}

/* Opens an event that counts nothing, only for its ring. */
static int
perf_open_ring(struct ring *ring, struct perf_event_attr *attr, int cpu, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    attr->type = PERF_TYPE_SOFTWARE;
    attr->config = PERF_COUNT_SW_DUMMY;
    attr->watermark = 1;
    attr->wakeup_watermark = (uint32_t)size;
    ring->fd = perf_open(attr, cpu);
    if (ring->fd < 0)
        return errno;
    void *memory = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
    if (memory == MAP_FAILED)
        return errno;
    ring->page = memory;
    ring->size = size;
    return 0;
}

static void
perf_close_ring(struct ring *ring)
{
    if (ring->page)
        munmap(ring->page, (size_t)sysconf(_SC_PAGESIZE) + ring->size);
    if (ring->fd >= 0)
        close(ring->fd);
}

static int
perf_open_cpu(vg_perf_rings *rings, size_t i)
{
    struct perf_event_attr mapped = {.mmap = 1,
                                     .mmap2 = 1,
                                     .sample_id_all = 1,
                                     .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                                                    PERF_SAMPLE_IDENTIFIER,
                                     .use_clockid = 1,
                                     .clockid = CLOCK_BOOTTIME};
    struct perf_event_attr called = {.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_IDENTIFIER};

    rings->mapped[i].fd = rings->called[i].fd = -1;
    int error = perf_open_ring(&rings->mapped[i], &mapped, rings->cpus[i], MAPPED_RING);
    return error != 0 ? error
                      : perf_open_ring(&rings->called[i], &called, rings->cpus[i], CALLED_RING);
}

/* Raises the limit of open files, since a probe has a file for each CPU. */
static void
perf_raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* ---- tracefs, which defines probes ---- */

/* Opens tracefs. If it is not mounted, mounts it only for this process. */
static int
perf_open_tracing(void)
{
    int dir = open("/sys/kernel/tracing", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (dir >= 0 && faccessat(dir, "uprobe_events", W_OK, 0) == 0)
        return dir;
    if (dir >= 0)
        close(dir);
    /* glibc has these calls since 2.36. */
    int fs = (int)syscall(SYS_fsopen, "tracefs", FSOPEN_CLOEXEC);
    if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0)
        dir = -1;
    else
        dir = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0);
    if (fs >= 0)
        close(fs);
    return dir;
}

/* Appends one line to the list of probes. Returns 0, or an errno. */
static int
perf_define(const vg_perf_rings *rings, const char *line)
{
    int fd = openat(rings->tracing, "uprobe_events", O_WRONLY | O_APPEND | O_CLOEXEC);
    int error = 0;

    if (fd < 0)
        return errno;
    if (write(fd, line, strlen(line)) < 0)
        error = errno;
    close(fd);
    return error;
}

/* Returns the number of this process's pid namespace, or 0 if there is no /proc. */
static unsigned long
perf_namespace(void)
{
    struct stat about;

    return stat("/proc/self/ns/pid", &about) == 0 ? (unsigned long)about.st_ino : 0;
}

/* Returns whether a line of the list of probes is from a killed agent, with its group and name.
 * Probes of another namespace remain, because this process cannot see which of that namespace's
 * processes run. */
static bool
perf_is_left(const char *line, char group[64], char name[64])
{
    if (sscanf(line, "p:%63[^/]/%63s", group, name) != 2 ||
        strncmp(group, GROUP, strlen(GROUP)) != 0)
        return false;
    char *end;
    pid_t pid = (pid_t)strtol(group + strlen(GROUP), &end, 10);
    if (*end == '_' && strtoul(end + 1, NULL, 10) != perf_namespace())
        return false;
    return pid != getpid() && kill(pid, 0) != 0 && errno == ESRCH;
}

/* Removes the probes of killed agents, once the whole list has been read: the kernel skips lines if
 * the list becomes shorter between two reads. */
static void
perf_clean_up(const vg_perf_rings *rings)
{
    int fd = openat(rings->tracing, "uprobe_events", O_RDONLY | O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    char *line = NULL, *left = NULL, group[64], name[64];
    size_t size = 0, left_size = 0;
    FILE *to = open_memstream(&left, &left_size);

    while (file && to && getline(&line, &size, file) > 0) {
        if (perf_is_left(line, group, name))
            fprintf(to, "-:%s/%s\n", group, name);
    }
    if (to)
        fclose(to);
    for (char *rest = left, *one; rest && (one = strsep(&rest, "\n")) && *one;)
        perf_define(rings, one);
    free(left);
    free(line);
    if (file)
        fclose(file);
}

vg_perf_rings *
vg_perf_rings_open(char *ret_why, size_t size)
{
    vg_perf_rings *rings = vg_guest_alloc(sizeof *rings);
    int error = 0;

    rings->tracing = perf_open_tracing();
    if (rings->tracing < 0 || faccessat(rings->tracing, "uprobe_events", W_OK, 0) != 0)
        error = errno;
    vg_guest_read_file(ONLINE, rings->online, sizeof rings->online);
    size_t n_cpus = perf_parse_cpus(rings->online, rings->cpus, CPUS_MAX);
    perf_raise_limit();
    for (size_t i = 0; i < n_cpus && error == 0; i++) {
        error = perf_open_cpu(rings, i);
        rings->n_cpus = i + 1;
    }
    if (error == 0 && n_cpus > 0) {
        perf_clean_up(rings);
        return rings;
    }
    vg_guest_put(ret_why, size, "uprobes are unavailable here: %s",
                 strerror(error != 0 ? error : ENODEV));
    vg_perf_rings_close(rings);
    return NULL;
}

void
vg_perf_rings_close(vg_perf_rings *rings)
{
    if (!rings)
        return;
    vg_perf_rings_remove(rings, 0, UINT32_MAX);
    for (size_t i = 0; i < rings->n_cpus; i++) {
        perf_close_ring(&rings->mapped[i]);
        perf_close_ring(&rings->called[i]);
    }
    if (rings->tracing >= 0)
        close(rings->tracing);
    free(rings->probes);
    free(rings);
}

bool
vg_perf_rings_are_stale(const vg_perf_rings *rings)
{
    char online[sizeof rings->online];

    return vg_guest_read_file(ONLINE, online, sizeof online) == 0 &&
           strcmp(online, rings->online) != 0;
}

/* ---- probes ---- */

/* Returns the name of a probe in tracefs. */
static char *
perf_name(uint32_t mark)
{
    return vg_guest_format(GROUP "%d_%lu/p%x", (int)getpid(), perf_namespace(), mark);
}

static void
perf_undefine(const vg_perf_rings *rings, uint32_t mark)
{
    vg_guest_auto char *name = perf_name(mark);
    vg_guest_auto char *line = vg_guest_format("-:%s\n", name);

    perf_define(rings, line);
}

/* Writes the values of a probe in tracefs's format, with the names of registers. */
static void
perf_put_values(const char *values, char *ret, size_t size)
{
#if defined __x86_64__
    static const char *const args[] = {"%di", "%si", "%dx", "%cx", "%r8", "%r9"};
    static const char caller[] = "+0(%sp)";
#else
    static const char *const args[] = {"%x0", "%x1", "%x2", "%x3", "%x4", "%x5"};
    static const char caller[] = "%x30";
#endif
    vg_guest_auto char *copy = vg_guest_copy(values);
    char *rest = copy;
    size_t used = 0;

    ret[0] = '\0';
    for (int i = 0; rest && i < VG_PERF_VALUES_MAX; i++) {
        const char *value = strsep(&rest, " "), *arg = strstr(value, "arg");
        if (!arg)
            vg_guest_put(ret + used, size - used, " v%d=%s:u64", i, caller);
        else
            vg_guest_put(ret + used, size - used, " v%d=%.*s%s%s:u64", i, (int)(arg - value), value,
                         args[arg[3] - '0'], arg + 4);
        used = strlen(ret);
    }
}

/* Defines a probe. Returns 0 and the number of its tracepoint, or an errno. EIO means that it no
 * longer exists. */
static int
perf_define_probe(const vg_perf_rings *rings, int file, const struct vg_perf_point *point,
                  uint64_t *ret_id)
{
    char values[256];
    perf_put_values(point->values, values, sizeof values);
    vg_guest_auto char *name = perf_name(point->mark);
    /* This path contains nothing that needs quoting. */
    vg_guest_auto char *line = vg_guest_format("p:%s /proc/%d/fd/%d:0x%" PRIx64 "%s\n", name,
                                               (int)getpid(), file, point->offset, values);
    vg_guest_auto char *path = vg_guest_format("events/%s/id", name);
    char text[32] = "";
    int error = perf_define(rings, line);

    if (error != 0)
        return error;
    int fd = openat(rings->tracing, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    *ret_id = strtoull(text, NULL, 10);
    return got > 0 ? 0 : EIO;
}

static int
perf_open_probe(vg_perf_rings *rings, uint64_t tracepoint, const struct vg_perf_point *point,
                size_t i)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_TRACEPOINT,
                                   .config = tracepoint,
                                   .sample_period = 1,
                                   .sample_type =
                                       PERF_SAMPLE_TID | PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_RAW,
                                   .watermark = 1,
                                   .wakeup_watermark = CALLED_RING};
    struct probe *probe = &rings->probes[rings->n_probes];
    vg_guest_auto char *filter = vg_guest_format("v1 >= %" PRIu64, point->at_least);

    *probe = (struct probe){.mark = point->mark, .fd = perf_open(&attr, rings->cpus[i])};
    if (probe->fd < 0)
        return errno;
    rings->n_probes++;
    if (point->at_least > 0 && ioctl(probe->fd, PERF_EVENT_IOC_SET_FILTER, filter) != 0)
        return errno;
    if (ioctl(probe->fd, PERF_EVENT_IOC_ID, &probe->id) != 0 ||
        ioctl(probe->fd, PERF_EVENT_IOC_SET_OUTPUT, rings->called[i].fd) != 0)
        return errno;
    return 0;
}

static int
perf_try_probe(vg_perf_rings *rings, int file, const struct vg_perf_point *point)
{
    uint64_t tracepoint = 0;
    int error = perf_define_probe(rings, file, point, &tracepoint);

    rings->probes =
        vg_guest_grow(rings->probes, (rings->n_probes + rings->n_cpus) * sizeof *rings->probes);
    for (size_t i = 0; i < rings->n_cpus && error == 0; i++) {
        error = perf_open_probe(rings, tracepoint, point, i);
        /* The kernel returns this for a tracepoint that no longer exists. */
        if (error == EINVAL || error == ENOENT)
            error = EIO;
    }
    if (error != 0)
        vg_perf_rings_remove(rings, point->mark, 0);
    return error;
}

int
vg_perf_rings_probe(vg_perf_rings *rings, int file, const struct vg_perf_point *point)
{
    int error = perf_try_probe(rings, file, point);

    /* Until it is in use, an older agent in another pid namespace may remove it, because it cannot
     * see that this agent is running. */
    for (int i = 1; i < TRIES && error == EIO; i++) {
        perf_undefine(rings, point->mark);
        error = perf_try_probe(rings, file, point);
    }
    return error;
}

void
vg_perf_rings_remove(vg_perf_rings *rings, uint32_t mark, uint32_t mask)
{
    size_t n = 0, n_gone = 0;
    vg_guest_auto uint32_t *gone = vg_guest_alloc(rings->n_probes * sizeof *gone + 1);

    for (size_t i = 0; i < rings->n_probes; i++) {
        const struct probe probe = rings->probes[i];
        if ((probe.mark & ~mask) != (mark & ~mask)) {
            rings->probes[n++] = probe;
            continue;
        }
        close(probe.fd);
        /* The probes with the same mark are adjacent. */
        if (n_gone == 0 || gone[n_gone - 1] != probe.mark)
            gone[n_gone++] = probe.mark;
    }
    rings->n_probes = n;
    for (size_t i = 0; i < n_gone; i++)
        perf_undefine(rings, gone[i]);
}

static const struct probe *
perf_find_probe(const vg_perf_rings *rings, uint64_t id)
{
    size_t from = 0, to = rings->n_probes;

    while (from < to) {
        size_t middle = (from + to) / 2;
        if (rings->probes[middle].id == id)
            return &rings->probes[middle];
        if (rings->probes[middle].id < id)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

/* ---- reading ---- */

struct reader {
    const vg_perf_rings *rings;
    const struct vg_perf_ops *ops;
    void *user;
    bool calls;
};

/* The bodies of records as in linux/perf_event.h. */
struct body_mmap2 {
    struct perf_event_header header;
    uint32_t pid, tid;
    uint64_t address, length, offset;
    uint32_t major, minor;
    uint64_t inode, generation;
    uint32_t protection, flags;
    char path[];
};

struct body_call {
    struct perf_event_header header;
    uint64_t id;
    uint32_t pid, tid;
    /* The size of the tracepoint's record, which follows. */
    uint32_t size;
};
/* The offset of this record. */
#define CALL_BYTES 28

/* The fields at the end of each record that is not a sample: pid, tid, time, id. */
#define TRAILER_BYTES   24
#define TRAILER_TIME_AT 16

static void
perf_take_call(const struct reader *reader, const char *record, size_t size)
{
    uint64_t values[VG_PERF_VALUES_MAX];
    struct body_call body;

    memcpy(&body, record, CALL_BYTES);
    const struct probe *probe = perf_find_probe(reader->rings, body.id);
    size_t bytes = body.size <= size - CALL_BYTES ? body.size : size - CALL_BYTES;
    size_t n = bytes > VALUES_AT ? (bytes - VALUES_AT) / sizeof *values : 0;
    n = n < VG_PERF_VALUES_MAX ? n : VG_PERF_VALUES_MAX;
    memcpy(values, record + CALL_BYTES + VALUES_AT, n * sizeof *values);
    if (probe)
        reader->ops->called(reader->user, (pid_t)body.pid, probe->mark, values, n);
}

static void
perf_take(const struct reader *reader, char *record, size_t size)
{
    struct perf_event_header header;

    memcpy(&header, record, sizeof header);
    if (header.type == PERF_RECORD_LOST) {
        reader->ops->lost(reader->user, reader->calls);
    } else if (header.type == PERF_RECORD_MMAP2 &&
               size > sizeof(struct body_mmap2) + TRAILER_BYTES) {
        struct body_mmap2 body;
        uint64_t time_ns;
        memcpy(&body, record, sizeof body);
        memcpy(&time_ns, record + size - TRAILER_TIME_AT, sizeof time_ns);
        /* The kernel terminates the path with a NUL. This one guards against anything else. */
        record[size - TRAILER_BYTES - 1] = '\0';
        reader->ops->mapped(reader->user, (pid_t)body.pid, time_ns,
                            record + offsetof(struct body_mmap2, path));
    } else if (header.type == PERF_RECORD_SAMPLE && size >= CALL_BYTES + VALUES_AT) {
        perf_take_call(reader, record, size);
    }
}

static void
perf_copy(const struct ring *ring, uint64_t at, char *to, size_t size)
{
    const char *data = (const char *)ring->page + ring->page->data_offset;
    size_t from = at & (ring->size - 1), first = ring->size - from;

    first = first < size ? first : size;
    memcpy(to, data + from, first);
    memcpy(to + first, data, size - first);
}

static void
perf_read_ring(const struct reader *reader, struct ring *ring, size_t room)
{
    uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = ring->page->data_tail;
    bool full = ring->size - (head - tail) < room;
    char record[RECORD_MAX];

    while (tail < head) {
        struct perf_event_header header;
        perf_copy(ring, tail, (char *)&header, sizeof header);
        if (header.size < sizeof header)
            break;
        if (header.size <= sizeof record) {
            perf_copy(ring, tail, record, header.size);
            perf_take(reader, record, header.size);
        }
        tail += header.size;
    }
    __atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
    /* The kernel reports a loss only with the next record. */
    if (full)
        reader->ops->lost(reader->user, reader->calls);
}

void
vg_perf_rings_read(vg_perf_rings *rings, const struct vg_perf_ops *ops, void *user)
{
    struct reader reader = {.rings = rings, .ops = ops, .user = user};

    for (size_t i = 0; i < rings->n_cpus; i++)
        perf_read_ring(&reader, &rings->mapped[i], RECORD_MAX);
    reader.calls = true;
    for (size_t i = 0; i < rings->n_cpus; i++)
        perf_read_ring(&reader, &rings->called[i], CALL_ROOM);
}
