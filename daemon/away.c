/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/away.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/thread.h"

#define VG_LOG_TAG "daemon"

/* The words in the file, each followed by the kernel's boot id. All contents have the same length,
 * so that a full disk does not matter once the file exists. */
#define AWAY_RUNNING "running "
#define AWAY_STOPPED "stopped "
#define AWAY_LEN     (sizeof(AWAY_RUNNING) - 1)

/* A clock is slewed by less than 1 ms per second. A larger change means that it was set. */
#define AWAY_SET_NS (500 * VG_NS_PER_MS)

/* The interval of clock checks, and the maximum time to wait for a disk at the end. */
#define AWAY_CHECK_NS VG_NS_PER_S
#define AWAY_END_NS   VG_NS_PER_S

/* Both clocks are read again if more time than this passed between the reads. */
#define AWAY_READ_NS   (20 * VG_NS_PER_MS)
#define AWAY_READS_MAX 5

struct vg_away {
    int fd;      /* -1 if the file cannot be written */
    bool locked; /* the file is this vgpud's: no other vgpud writes it */
    char *boot;
    vg_event_log *events;
    vg_thread *thread; /* the only user of the other members; NULL if it could not be started */
    int64_t offset_ns; /* the clock - CLOCK_MONOTONIC at the last check */
};

/* Reads the clock's offset. Returns false if this thread gets too little CPU time for this. */
static bool
away_read_offset(int64_t *ret)
{
    for (int i = 0; i < AWAY_READS_MAX; i++) {
        const int64_t before_ns = vg_clock_monotonic_ns();
        const int64_t now_ns = vg_clock_realtime_ns();
        const int64_t took_ns = vg_clock_monotonic_ns() - before_ns;
        *ret = now_ns - before_ns - took_ns / 2;
        if (took_ns <= AWAY_READ_NS)
            return true;
    }
    return false;
}

/* Locks the file, which only one vgpud in the directory may write. Returns false while another
 * vgpud has locked it. */
static bool
away_lock(vg_away *away)
{
    if (away->fd < 0 || away->locked)
        return away->locked;
    /* A file system without locks is no reason to record nothing. */
    away->locked = flock(away->fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    return away->locked;
}

static void
away_note(const vg_away *away, const char *state)
{
    g_autofree char *text = g_strconcat(state, away->boot, "\n", NULL);
    const size_t size = strlen(text);

    if (away->locked && pwrite(away->fd, text, size, 0) != (ssize_t)size)
        vg_log_warn("cannot record in '%s' that vgpud is %sreason=\"%s\"", VG_AWAY_FILE, state,
                    g_strerror(errno));
}

static void
away_beat(const vg_away *away)
{
    const int64_t now_ns = vg_clock_realtime_ns();
    const struct timespec now = {.tv_sec = now_ns / VG_NS_PER_S, .tv_nsec = now_ns % VG_NS_PER_S};
    const struct timespec times[2] = {now, now};

    if (away->locked)
        futimens(away->fd, times);
}

/* Returns how the previous run ended, according to the file's text, or NULL if unknown. */
static const char *
away_how(const vg_away *away, const char *text)
{
    if (strncmp(text, AWAY_RUNNING, AWAY_LEN) != 0 && strncmp(text, AWAY_STOPPED, AWAY_LEN) != 0)
        return NULL;
    if (strncmp(text + AWAY_LEN, away->boot, strlen(away->boot)) != 0)
        return "host rebooted";
    return text[0] == AWAY_STOPPED[0] ? "stopped" : "killed";
}

static void
away_report(const vg_away *away)
{
    const int64_t now_ns = vg_clock_realtime_ns();
    char text[128] = "";
    struct stat st;

    if (fstat(away->fd, &st) != 0 || pread(away->fd, text, sizeof(text) - 1, 0) <= 0)
        return;
    const char *how = away_how(away, text);
    if (!how)
        return;
    const int64_t since_ns = st.st_mtim.tv_sec * VG_NS_PER_S + st.st_mtim.tv_nsec;
    json_object *data = json_object_new_object();
    vg_json_add_string(data, "what", "away");
    vg_json_add_string(data, "ended", how);
    vg_json_add_int64(data, "since_ns", since_ns);
    /* The clock may have been set back in the meantime. */
    const double for_s = (double)(now_ns - since_ns) / (double)VG_NS_PER_S;
    vg_json_add(data, "for_s", for_s >= 0 ? vg_json_new_double(for_s) : NULL);
    vg_log_notice("vgpud was not running ended=\"%s\" for_s=%.3f", how, for_s);
    vg_event_log_add(away->events, VG_HAPPENING_MEASURING, data);
}

/* Reports if the clock was set since the last check. */
static void
away_check(vg_away *away)
{
    int64_t offset_ns;

    if (!away_read_offset(&offset_ns))
        return;
    const int64_t by_ns = offset_ns - away->offset_ns;
    away->offset_ns = offset_ns;
    if (llabs(by_ns) < AWAY_SET_NS)
        return;
    const double by_s = (double)by_ns / (double)VG_NS_PER_S;
    json_object *data = json_object_new_object();
    vg_json_add_string(data, "what", "clock-set");
    vg_json_add_double(data, "by_s", by_s);
    vg_log_warn("the clock was set by_s=%.3f", by_s);
    vg_event_log_add(away->events, VG_HAPPENING_MEASURING, data);
}

static void
away_run(vg_thread *self, void *arg)
{
    vg_away *away = arg;

    while (vg_thread_sleep_until(self, vg_clock_monotonic_ns() + AWAY_CHECK_NS)) {
        /* The other vgpud has ended, but measuring has not stopped. */
        if (!away->locked && away_lock(away))
            away_note(away, AWAY_RUNNING);
        away_beat(away);
        /* Writing may have taken long, so that vgpud is already ending. */
        if (!vg_thread_stopping(self))
            away_check(away);
    }
    away_note(away, AWAY_STOPPED);
    away_beat(away);
}

vg_away *
vg_away_new(const char *directory, vg_event_log *events)
{
    vg_away *away = g_new0(vg_away, 1);
    g_autofree char *path = g_build_filename(directory, VG_AWAY_FILE, NULL);
    g_autoptr(GError) error = NULL;

    away->events = events;
    if (!g_file_get_contents("/proc/sys/kernel/random/boot_id", &away->boot, NULL, NULL))
        away->boot = g_strdup("");
    g_strchomp(away->boot);
    if (!away_read_offset(&away->offset_ns))
        away->offset_ns = vg_clock_realtime_ns() - vg_clock_monotonic_ns();
    away->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0640);
    if (away->fd < 0) {
        vg_log_warn("cannot open '%s', so vgpud will not know at its next start when it stopped "
                    "reason=\"%s\"",
                    path, g_strerror(errno));
    } else if (!away_lock(away)) {
        vg_log_warn("another vgpud is running in '%s': one of them needs another directory",
                    directory);
    } else {
        away_report(away);
        away_note(away, AWAY_RUNNING);
        away_beat(away);
    }
    away->thread = vg_thread_new("away", away_run, NULL, away, &error);
    if (!away->thread)
        vg_log_err("%s", error->message);
    return away;
}

void
vg_away_free(vg_away *away)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + AWAY_END_NS;

    if (!away)
        return;
    vg_thread_stop(away->thread);
    while (away->thread && !vg_thread_ended(away->thread)) {
        if (vg_clock_monotonic_ns() >= until_ns) {
            /* The objects that it still uses exist until the process ends. */
            vg_thread_leave(away->thread);
            return;
        }
        g_usleep(1000);
    }
    vg_thread_free(away->thread);
    if (away->fd >= 0)
        close(away->fd);
    g_free(away->boot);
    g_free(away);
}
