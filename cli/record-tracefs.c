/* SPDX-License-Identifier: Apache-2.0
 *
 * Records with the kernel alone: a separate tracefs instance, whose trace_pipe is copied to a file.
 * Other users' traces are not affected. Times in the text are in microseconds.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/record-dir.h"
#include "cli/record.h"
#include "trace/perf-format.h"
#include "trace/wanted-events.h"

/* per CPU */
#define BUFFER_KIB "8192"
#define READ_BYTES 65536
/* The kernel returns about one page of text per read. After this number of reads, other tasks get
 * their turn. */
#define READS_A_TICK 1024
#define HEADER       "# tracer: nop\n#\n"
#define INSTANCE     "vgpuctl-"

struct tracefs {
    char *instance;
    bool made;
    int pipe_fd;
    int file_fd;
    char *path;
    char *buf;
};

/* ---- tracefs ---- */

bool
vg_record_tracefs_has(const void *data, const char *name)
{
    g_auto(GStrv) words = g_strsplit(name, ":", 2);
    g_autofree char *path = g_build_filename(data, "events", words[0], words[1], "id", NULL);

    return access(path, F_OK) == 0;
}

/* Writes a value to a file of the instance. */
static int
set(const struct tracefs *tracefs, const char *file, const char *value, GError **err)
{
    g_autofree char *path = g_build_filename(tracefs->instance, file, NULL);
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_TRUNC);
    ssize_t n = fd >= 0 ? write(fd, value, strlen(value)) : -1;
    int saved = errno;

    if (fd >= 0)
        close(fd);
    return n >= 0 ? 0 : vg_error_errno(err, saved, "cannot write '%s' to '%s'", value, path);
}

/* Returns the prefix of this PID namespace's instances: in another namespace, the same process ID
 * means another process, or none. */
static char *
tracefs_prefix(void)
{
    struct stat status;

    if (stat("/proc/self/ns/pid", &status) < 0)
        status.st_ino = 0;
    return g_strdup_printf(INSTANCE "%" G_GUINT64_FORMAT "-", (guint64)status.st_ino);
}

/* Removes the instances of killed processes. */
static void
remove_stale(const char *instances, const char *prefix)
{
    DIR *dir = opendir(instances);

    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        gint64 pid;
        if (!g_str_has_prefix(entry->d_name, prefix) ||
            !g_ascii_string_to_signed(entry->d_name + strlen(prefix), 10, 1, INT32_MAX, &pid,
                                      NULL) ||
            kill((pid_t)pid, 0) == 0 || errno != ESRCH)
            continue;
        g_autofree char *path = g_build_filename(instances, entry->d_name, NULL);
        rmdir(path);
    }
    if (dir)
        closedir(dir);
}

static int
make_instance(struct tracefs *tracefs, const char *root, GError **err)
{
    g_autofree char *instances = g_build_filename(root, "instances", NULL);
    g_autofree char *prefix = tracefs_prefix();

    remove_stale(instances, prefix);
    tracefs->instance = g_strdup_printf("%s/%s%d", instances, prefix, (int)getpid());
    tracefs->made = mkdir(tracefs->instance, 0700) == 0;
    if (!tracefs->made)
        return vg_error_errno(err, errno, "cannot create '%s'%s", tracefs->instance,
                              errno == EACCES || errno == EPERM ? " (run as root)" : "");
    if (set(tracefs, "tracing_on", "0", err) < 0 || set(tracefs, "trace_clock", "mono", err) < 0 ||
        set(tracefs, "buffer_size_kb", BUFFER_KIB, err) < 0)
        return -1;
    /* Record the process of each thread. Kernels before 4.13 do not support this. */
    set(tracefs, "options/record-tgid", "1", NULL);
    return 0;
}

static int
enable_events(const struct tracefs *tracefs, const struct vg_wanted_events *events, GError **err)
{
    for (unsigned int i = 0; i < events->names->len; i++) {
        g_auto(GStrv) words = g_strsplit(events->names->pdata[i], ":", 2);
        g_autofree char *file = g_strdup_printf("events/%s/%s/enable", words[0], words[1]);
        if (set(tracefs, file, "1", err) < 0)
            return -1;
    }
    return 0;
}

static int
open_files(struct tracefs *tracefs, const char *dir, GError **err)
{
    g_autofree char *pipe_path = g_build_filename(tracefs->instance, "trace_pipe", NULL);

    tracefs->path = g_build_filename(dir, VG_RECORD_TEXT, NULL);
    tracefs->buf = g_malloc(READ_BYTES);
    tracefs->pipe_fd = open(pipe_path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (tracefs->pipe_fd < 0)
        return vg_error_errno(err, errno, "cannot open '%s'", pipe_path);
    tracefs->file_fd = open(tracefs->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (tracefs->file_fd < 0)
        return vg_error_errno(err, errno, "cannot create '%s'", tracefs->path);
    if (write(tracefs->file_fd, HEADER, strlen(HEADER)) != (ssize_t)strlen(HEADER))
        return vg_error_errno(err, errno, "cannot write '%s'", tracefs->path);
    return 0;
}

/* ---- copying ---- */

static int
write_all(const struct tracefs *tracefs, size_t size, GError **err)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(tracefs->file_fd, tracefs->buf + done, size - done);
        if (n < 0 && errno != EINTR)
            return vg_error_errno(err, errno, "cannot write '%s'", tracefs->path);
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Copies the available data. Returns 1 if there may be more. */
static int
record_tracefs_copy(const struct tracefs *tracefs, GError **err)
{
    for (int i = 0; i < READS_A_TICK; i++) {
        ssize_t n = read(tracefs->pipe_fd, tracefs->buf, READ_BYTES);
        if (n == 0 || (n < 0 && errno == EAGAIN))
            return 0;
        if (n < 0 && errno != EINTR)
            return vg_error_errno(err, errno, "cannot read what the kernel recorded");
        if (n > 0 && write_all(tracefs, (size_t)n, err) < 0)
            return -1;
    }
    return 1;
}

/* Returns a CPU's number of events that were overwritten or dropped. */
static uint64_t
lost_of(const char *stats_path)
{
    static const char *const words[] = {"overrun: ", "commit overrun: ", "dropped events: "};
    g_autofree char *text = NULL;
    uint64_t lost = 0;

    if (!g_file_get_contents(stats_path, &text, NULL, NULL))
        return 0;
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (size_t i = 0; lines[i]; i++) {
        for (size_t j = 0; j < G_N_ELEMENTS(words); j++) {
            if (g_str_has_prefix(lines[i], words[j]))
                lost += g_ascii_strtoull(lines[i] + strlen(words[j]), NULL, 10);
        }
    }
    return lost;
}

static uint64_t
count_lost(const struct tracefs *tracefs)
{
    g_autofree char *per_cpu = g_build_filename(tracefs->instance, "per_cpu", NULL);
    DIR *dir = opendir(per_cpu);
    uint64_t lost = 0;

    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        g_autofree char *path = g_build_filename(per_cpu, entry->d_name, "stats", NULL);
        lost += lost_of(path);
    }
    if (dir)
        closedir(dir);
    return lost;
}

/* ---- the method ---- */

static void
tracefs_free(void *way)
{
    struct tracefs *tracefs = way;

    if (tracefs->made) {
        set(tracefs, "tracing_on", "0", NULL);
        set(tracefs, "events/enable", "0", NULL);
    }
    if (tracefs->pipe_fd >= 0)
        close(tracefs->pipe_fd);
    if (tracefs->file_fd >= 0)
        close(tracefs->file_fd);
    if (tracefs->made)
        rmdir(tracefs->instance);
    g_free(tracefs->instance);
    g_free(tracefs->path);
    g_free(tracefs->buf);
    g_free(tracefs);
}

static void *
tracefs_start(struct vg_record_context *context, GError **err)
{
    struct vg_wanted_events events;
    const char *root = vg_tracefs_root(err);

    if (!root ||
        vg_wanted_events_find(VG_DIALECT_KERNEL, vg_record_tracefs_has, root, &events, err) < 0)
        return NULL;
    struct tracefs *tracefs = g_new0(struct tracefs, 1);
    tracefs->pipe_fd = tracefs->file_fd = -1;
    int status = make_instance(tracefs, root, err);
    if (status == 0)
        status = enable_events(tracefs, &events, err);
    if (status == 0)
        status = open_files(tracefs, context->dir, err);
    if (status == 0)
        status = set(tracefs, "tracing_on", "1", err);
    if (status == 0)
        vg_record_note_missing(context, events.missing);
    vg_wanted_events_clear(&events);
    if (status == 0)
        return tracefs;
    tracefs_free(tracefs);
    return NULL;
}

static int
tracefs_tick(void *way, struct vg_record_context *context, GError **err)
{
    (void)context;
    return record_tracefs_copy(way, err);
}

static int
tracefs_finish(void *way, struct vg_record_context *context, uint64_t *ret_lost, GError **err)
{
    struct tracefs *tracefs = way;
    int more = set(tracefs, "tracing_on", "0", err) < 0 ? -1 : 1;

    while (more == 1) {
        more = record_tracefs_copy(tracefs, err);
        if (more == 1 && vg_record_dir_check_room(context->dir, VG_RECORD_LEFT_BYTES, err) < 0)
            more = -1;
    }
    if (more < 0)
        return -1;
    *ret_lost = count_lost(tracefs);
    int fd = tracefs->file_fd;
    tracefs->file_fd = -1;
    return close(fd) == 0 ? 0 : vg_error_errno(err, errno, "cannot write '%s'", tracefs->path);
}

const struct vg_record_way vg_record_tracefs = {
    .name = "tracefs",
    .trace = VG_RECORD_TEXT,
    .start = tracefs_start,
    .tick = tracefs_tick,
    .finish = tracefs_finish,
    .free = tracefs_free,
};
