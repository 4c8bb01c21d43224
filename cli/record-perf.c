/* SPDX-License-Identifier: Apache-2.0
 *
 * Records with `perf record`, whose file `perf data convert` converts to CTF. perf starts with its
 * events disabled, and receives commands to start and stop through a pipe, so that its own startup
 * and end are not recorded. perf's CTF does not contain lost events: they are counted in perf's own
 * file.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/record-dir.h"
#include "cli/record.h"
#include "trace/perf-format.h"
#include "trace/wanted-events.h"

/* per CPU */
#define BUFFER "8M"
/* perf examines all processes before it starts. */
#define START_NS (60 * VG_NS_PER_S)
#define END_NS   (60 * VG_NS_PER_S)
/* perf converts 0.1 million events per second. */
#define CONVERT_NS (6 * 3600 * VG_NS_PER_S)
#define POLL_MS    50

struct perf {
    char *data; /* perf's own file */
    char *ctf;
    vg_child *child;
    int control_fd; /* for commands to perf */
    int ack_fd;     /* for perf's answers */
};

/* Reports that perf has ended early. */
static int
too_early(const struct perf *perf, GError **err)
{
    if (vg_child_result(perf->child, err) < 0)
        return -1;
    return vg_error(err, VG_E_EXTERNAL, "perf exited before the recording ended");
}

static int
command(const struct perf *perf, const char *line, GError **err)
{
    ssize_t length = (ssize_t)strlen(line);

    if (write(perf->control_fd, line, (size_t)length) == length)
        return 0;
    /* If perf no longer reads commands, it is about to end, and reports the reason. */
    if (errno == EPIPE && vg_child_poll(perf->child, -1, (int)(END_NS / VG_NS_PER_MS)))
        return too_early(perf, err);
    return vg_error_errno(err, errno, "cannot communicate with perf");
}

/* Waits until perf has executed a command. */
static int
wait_for_ack(const struct perf *perf, struct vg_record_context *context, GError **err)
{
    const int64_t deadline_ns = vg_clock_monotonic_ns() + START_NS;
    char buf[16];

    while (!vg_child_poll(perf->child, perf->ack_fd, POLL_MS)) {
        if (read(perf->ack_fd, buf, sizeof(buf)) > 0)
            return 0;
        if (vg_record_signalled(context, 0))
            return vg_error(err, VG_E_EXTERNAL, "interrupted before the recording started");
        if (vg_clock_monotonic_ns() >= deadline_ns)
            return vg_error(err, VG_E_TIMEOUT, "perf did not start recording");
    }
    return too_early(perf, err);
}

/* Returns the child, which has the other ends of both pipes, or NULL. */
static vg_child *
run_record(const struct perf *perf, const struct vg_wanted_events *events, int control_fd,
           int ack_fd, GError **err)
{
    g_autofree char *fds = g_strdup_printf("--control=fd:%d,%d", control_fd, ack_fd);
    g_autoptr(GPtrArray) argv = g_ptr_array_new();
    const int keep[] = {control_fd, ack_fd};
    /* For running processes, record only names and ids. Symbols are not needed. */
    const char *const fixed[] = {
        "perf", "record",       "-a",         "-k", "mono", "-m",       BUFFER,
        "-B",   "--synth=task", "--delay=-1", fds,  "-o",   perf->data,
    };

    for (size_t i = 0; i < G_N_ELEMENTS(fixed); i++)
        g_ptr_array_add(argv, (void *)fixed[i]);
    for (unsigned int i = 0; i < events->names->len; i++) {
        g_ptr_array_add(argv, (void *)"-e");
        g_ptr_array_add(argv, events->names->pdata[i]);
    }
    g_ptr_array_add(argv, NULL);
    vg_child *child = vg_child_new((const char *const *)argv->pdata, keep, G_N_ELEMENTS(keep), err);
    if (!child)
        g_prefix_error(err, "perf is needed (Debian: linux-perf, Ubuntu: linux-tools-generic): ");
    return child;
}

static int
start_record(struct perf *perf, const struct vg_wanted_events *events, GError **err)
{
    int control[2], ack[2];

    if (pipe2(control, O_CLOEXEC) != 0)
        return vg_error_errno(err, errno, "cannot run perf");
    perf->control_fd = control[1];
    if (pipe2(ack, O_CLOEXEC) != 0) {
        close(control[0]);
        return vg_error_errno(err, errno, "cannot run perf");
    }
    perf->ack_fd = ack[0];
    fcntl(perf->ack_fd, F_SETFL, O_NONBLOCK);
    perf->child = run_record(perf, events, control[0], ack[1], err);
    close(control[0]);
    close(ack[1]);
    return perf->child ? command(perf, "enable\n", err) : -1;
}

static void
perf_free(void *way)
{
    struct perf *perf = way;

    vg_child_free(perf->child);
    if (perf->control_fd >= 0)
        close(perf->control_fd);
    if (perf->ack_fd >= 0)
        close(perf->ack_fd);
    unlink(perf->data);
    g_free(perf->data);
    g_free(perf->ctf);
    g_free(perf);
}

static void *
perf_start(struct vg_record_context *context, GError **err)
{
    struct vg_wanted_events events;
    const char *root = vg_tracefs_root(err);

    if (!root ||
        vg_wanted_events_find(VG_DIALECT_KERNEL, vg_record_tracefs_has, root, &events, err) < 0)
        return NULL;
    struct perf *perf = g_new0(struct perf, 1);
    perf->data = g_build_filename(context->dir, VG_RECORD_SCRATCH, NULL);
    perf->ctf = g_build_filename(context->dir, VG_RECORD_CTF, NULL);
    perf->control_fd = perf->ack_fd = -1;
    int status = start_record(perf, &events, err);
    if (status == 0)
        status = wait_for_ack(perf, context, err);
    if (status == 0)
        vg_record_note_missing(context, events.missing);
    vg_wanted_events_clear(&events);
    if (status == 0)
        return perf;
    perf_free(perf);
    return NULL;
}

static int
perf_tick(void *way, struct vg_record_context *context, GError **err)
{
    const struct perf *perf = way;
    struct stat st = {0};

    /* The CTF will have about the same size as perf's file, which is removed only afterwards. */
    stat(perf->data, &st);
    if (vg_record_dir_check_room(context->dir, VG_RECORD_LEFT_BYTES + (int64_t)st.st_size, err) < 0)
        return -1;
    return vg_child_poll(perf->child, -1, 0) ? too_early(perf, err) : 0;
}

/* ---- afterwards ---- */

/* Runs another perf command until it ends. Returns the child, or NULL. */
static vg_child *
run_other(struct vg_record_context *context, const char *const *argv, const char *what,
          GError **err)
{
    g_autoptr(vg_child) child = vg_child_new(argv, NULL, 0, err);

    if (!child || vg_record_wait(context, child, what, CONVERT_NS, err) < 0)
        return NULL;
    return g_steal_pointer(&child);
}

static uint64_t
number_behind(const char *line, const char *word)
{
    const char *at = strstr(line, word);

    return at ? g_ascii_strtoull(at + strlen(word), NULL, 10) : 0;
}

/* `perf report --stats` first prints the number of loss records, and then, for each event, the
 * number of lost samples, which kernels count since 6.0. */
static uint64_t
parse_lost(const char *text)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    uint64_t times = 0, events = 0;
    bool is_sum = true;

    for (size_t i = 0; lines[i]; i++) {
        if (g_str_has_suffix(lines[i], " stats:"))
            is_sum = strcmp(lines[i], "Aggregated stats:") == 0;
        if (is_sum)
            times = MAX(times, number_behind(lines[i], " LOST events:"));
        else
            events += number_behind(lines[i], "LOST_SAMPLES events:");
    }
    return MAX(times, events);
}

static int
perf_finish(void *way, struct vg_record_context *context, uint64_t *ret_lost, GError **err)
{
    const struct perf *perf = way;
    const char *const report[] = {"perf", "report", "--stats", "--stdio", "-i", perf->data, NULL};
    const char *const convert[] = {
        "perf", "data", "convert", "--all", "--to-ctf", perf->ctf, "-i", perf->data, NULL,
    };

    if (command(perf, "stop\n", err) < 0 ||
        vg_record_wait(context, perf->child, "perf record", END_NS, err) < 0)
        return -1;
    g_autoptr(vg_child) stats = run_other(context, report, "perf report", err);
    g_autoptr(vg_child) converted =
        stats ? run_other(context, convert, "perf data convert", err) : NULL;
    if (!converted)
        return -1;
    *ret_lost = parse_lost(vg_child_output(stats));
    return 0;
}

const struct vg_record_way vg_record_perf = {
    .name = "perf",
    .trace = VG_RECORD_CTF,
    .start = perf_start,
    .tick = perf_tick,
    .finish = perf_finish,
    .free = perf_free,
};
