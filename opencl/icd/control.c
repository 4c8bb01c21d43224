/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/icd/control.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/base/say.h"
#include "opencl/icd/ending.h"
#include "opencl/icd/switch.h"
#include "opencl/icd/vendor.h"
#include "opencl/track/include.h"
#include "opencl/track/memory.h"

#define CONTROL_PAUSE_S 2 /* between two attempts to connect */
#define CONTROL_LATE_MS                                                                            \
 2000 /* a stop ends this long after its deadline, unless a call does not return */
#define CONTROL_LONG_S 30 /* a return that takes longer than this is reported */
#define MS             INT64_C(1000000)
/* The rate at which programs with much memory may copy it. The agent allows the same
 * (guest/work.h). */
#define CONTROL_BYTES_PER_MS (((int64_t)512 << 20) / 1000)

struct control {
    int fd;
    char line[256];
    size_t used;
};

/* Returns the value of an environment variable for tests, or `usual`. */
static int64_t
control_env_seconds(const char *name, int64_t usual)
{
    const char *text = secure_getenv(name);
    int64_t seconds = text ? strtoll(text, NULL, 10) : 0;

    return seconds > 0 ? seconds : usual;
}

/* Returns the time in ns for copying all of the program's memory once. */
static int64_t
control_copy_ns(void)
{
    return (int64_t)vg_cl_mem_bytes() / CONTROL_BYTES_PER_MS * MS;
}

static bool __attribute__((format(printf, 2, 3)))
control_report(const struct control *control, const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    int size = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (size < 0)
        return false;
    size = (int)strlen(line);
    line[size++] = '\n';
    return send(control->fd, line, (size_t)size, MSG_NOSIGNAL) == size;
}

static int
control_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = secure_getenv("VGPU_OPENCL_AGENT");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (!path)
        path = VG_OPENCL_AGENT_SOCKET;
    if (fd < 0 || strlen(path) >= sizeof address.sun_path) {
        close(fd);
        return -1;
    }
    strcpy(address.sun_path, path);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Returns whether to abandon a stop: any line that arrives in the meantime ends it, and so does the
 * end of the agent. The line is read afterwards. */
static bool
control_is_aborted(void *data)
{
    struct control *control = data;
    struct pollfd poll_fd = {.fd = control->fd, .events = POLLIN};

    return poll(&poll_fd, 1, 0) > 0;
}

/* ---- what hangs ---- */

/* A thread that reports a stop that continues long after its deadline, or a return that takes long
 * because a call of the vendor's library does not return. */
struct control_watch {
    const struct control *control; /* NULL: no agent */
    const char *word;              /* keyword of the line for the agent */
    const char *who;               /* what does not return */
    const struct vg_cl_switch *s;  /* only its `last` */
    int64_t late_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool has_thread, has_ended, has_reported;
};

static void *
control_watch_run(void *data)
{
    struct control_watch *watch = data;
    struct timespec late = {.tv_sec = watch->late_ns / (1000 * MS),
                            .tv_nsec = watch->late_ns % (1000 * MS)};
    int error = 0;

    pthread_mutex_lock(&watch->lock);
    while (!watch->has_ended && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&watch->ended, &watch->lock, &late);
    if (!watch->has_ended) {
        const char *last = watch->s->last;
        watch->has_reported = true;
        vg_cl_say("%s does not return%s%s; the program is waiting", watch->who,
                  last && *last ? " after " : "", last ? last : "");
        if (watch->control)
            control_report(watch->control, "%s %s does not return%s%s", watch->word, watch->who,
                           last && *last ? " after " : "", last ? last : "");
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

static void
control_watch_begin(struct control_watch *watch, const struct control *control,
                    const struct vg_cl_switch *s, const char *word, const char *place,
                    int64_t late_ns)
{
    pthread_condattr_t attr;

    *watch = (struct control_watch){.control = control,
                                    .s = s,
                                    .word = word,
                                    .who = *place ? "a call to the proxy"
                                                  : "a call to the vendor's library",
                                    .late_ns = late_ns};
    pthread_mutex_init(&watch->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->ended, &attr);
    pthread_condattr_destroy(&attr);
    watch->has_thread = pthread_create(&watch->thread, NULL, control_watch_run, watch) == 0;
}

/* Returns whether the agent has got a report. */
static bool
control_watch_end(struct control_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->has_ended = true;
    pthread_cond_signal(&watch->ended);
    pthread_mutex_unlock(&watch->lock);
    if (watch->has_thread)
        pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->ended);
    pthread_mutex_destroy(&watch->lock);
    return watch->has_reported;
}

/* ---- what the agent says ---- */

static bool
control_prepare(struct control *control, int64_t ms, const char *place)
{
    int64_t begin = vg_cl_now();
    struct vg_cl_switch s = {.deadline_ns = begin + ms * MS,
                             .is_aborted = control_is_aborted,
                             .data = control,
                             .place = place};

    struct control_watch watch;
    control_watch_begin(&watch, control, &s, "lost", vg_cl_place(),
                        s.deadline_ns + CONTROL_LATE_MS * MS + control_copy_ns());
    enum vg_cl_stopped stopped = vg_cl_stop(&s);
    bool has_reported = control_watch_end(&watch);
    vg_cl_log("%s: %s", stopped == VG_CL_STOPPED ? "released" : s.reason, s.steps);
    /* The result answers `resume`. */
    if (has_reported)
        return true;
    switch (stopped) {
    case VG_CL_STOPPED:
        return control_report(control, "released %" PRIu64 " %" PRId64, s.n_bytes,
                              (vg_cl_now() - begin) / 1000);
    case VG_CL_GOES_ON:
        return control_report(control, "refused %s", s.reason);
    case VG_CL_LOST:
        break;
    }
    vg_cl_say("%s", s.reason);
    return control_report(control, "lost %s", s.reason);
}

/* Has no deadline with a vendor's library: nothing else can use the program in the meantime, and
 * the call cannot be ended. A proxy has to answer in time (wire/link.h). A long duration is
 * reported. CONTROL may be NULL. */
static bool
control_return(const struct control *control, struct vg_cl_switch *s, const char *place)
{
    int64_t long_s = control_env_seconds("VGPU_OPENCL_LONG", CONTROL_LONG_S);
    struct control_watch watch;

    s->deadline_ns = INT64_MAX;
    control_watch_begin(&watch, control, s, "late", place,
                        vg_cl_now() + long_s * 1000 * MS + control_copy_ns());
    bool ok = vg_cl_resume(s, place);
    control_watch_end(&watch);
    return ok;
}

static bool
control_resume(struct control *control, const char *place)
{
    int64_t begin = vg_cl_now();
    struct vg_cl_switch s = {.n_bytes = 0};

    if (control_return(control, &s, place)) {
        bool ok = control_report(control, "resumed %" PRIu64 " %" PRId64, s.n_bytes,
                                 (vg_cl_now() - begin) / 1000);
        vg_cl_log("resumed: %s", s.steps);
        vg_cl_forget();
        return ok;
    }
    vg_cl_say("%s", s.reason);
    return control_report(control, "failed %s", s.reason);
}

/* Reports the present state, which does not change. */
static bool
control_answer(const struct control *control)
{
    struct vg_cl_switch s = {.deadline_ns = INT64_MAX};
    uint64_t bytes = vg_cl_mem_bytes();

    if (vg_cl_is_stopped())
        return control_report(control, "is released %" PRIu64, bytes);
    if (vg_cl_can_stop(&s))
        return control_report(control, "is %s %" PRIu64,
                              *vg_cl_place()               ? "away"
                              : vg_cl_vendors_are_remote() ? "remote"
                                                           : "running",
                              bytes);
    return control_report(control, "is unreleasable %" PRIu64 " %s", bytes, s.reason);
}

static bool
control_do(struct control *control, const char *line)
{
    static const char at[] = "resume at ";
    int64_t ms;
    int end = 0;

    if (strcmp(line, "ask") == 0)
        return control_answer(control);

    if (sscanf(line, "prepare %" SCNd64 " %n", &ms, &end) == 1 && ms > 0)
        return control_prepare(control, ms, end > 0 && line[end] ? line + end : NULL);
    if (strcmp(line, "resume") == 0)
        return control_resume(control, "");
    if (strncmp(line, at, sizeof at - 1) == 0)
        return control_resume(control, line + sizeof at - 1);
    if (strcmp(line, "abort") == 0)
        return true; /* it has completed its request, or came too late */
    return control_report(control, "error unknown message '%.64s'", line);
}

/* Reports the state of a program that an earlier agent has stopped or moved. */
static bool
control_hello(const struct control *control)
{
    const char *place = vg_cl_place();

    if (!vg_cl_is_stopped() && !*place)
        return control_report(control, "hello 1 %d", (int)getpid());
    return control_report(control, "hello 1 %d %s %" PRIu64 "%s%s", (int)getpid(),
                          vg_cl_is_stopped() ? "released" : "away", vg_cl_mem_bytes(),
                          *place ? " " : "", place);
}

/* Reads and executes lines until the agent closes the connection. */
static void
control_serve(struct control *control)
{
    bool ok = control_hello(control);

    while (ok) {
        char *end = memchr(control->line, '\n', control->used);
        if (end) {
            size_t size = (size_t)(end - control->line) + 1;
            char line[sizeof control->line];
            *end = '\0';
            memcpy(line, control->line, size);
            control->used -= size;
            memmove(control->line, control->line + size, control->used);
            ok = control_do(control, line);
            continue;
        }
        ssize_t n = control->used < sizeof control->line
                        ? recv(control->fd, control->line + control->used,
                               sizeof control->line - control->used, 0)
                        : 0;
        if (n < 0 && errno == EINTR)
            continue;
        ok = n > 0;
        control->used += ok ? (size_t)n : 0;
    }
}

/* Continues without an agent: where the program was, or else with its own vendors, because nothing
 * else would ever resume it. If there is no GPU for it, it remains stopped. */
static void
control_resume_alone(void)
{
    struct vg_cl_switch s = {.n_bytes = 0};
    char place[VG_CL_PLACE];

    snprintf(place, sizeof place, "%s", vg_cl_place());
    if (control_return(NULL, &s, place) || (*place && control_return(NULL, &s, ""))) {
        vg_cl_say("no agent is running; the program continues without one");
        vg_cl_log("resumed: %s", s.steps);
        vg_cl_forget();
    } else {
        vg_cl_log("no agent is running, and the program cannot continue without one: %s", s.reason);
    }
}

static void *
control_run(void *arg)
{
    int64_t alone_s = control_env_seconds("VGPU_OPENCL_ALONE", VG_CL_ALONE_S);
    int64_t served = vg_cl_now();

    (void)arg;
    for (;;) {
        struct control control = {.fd = control_connect()};
        if (control.fd >= 0) {
            control_serve(&control);
            close(control.fd);
            served = vg_cl_now();
        } else if (vg_cl_is_stopped() && vg_cl_now() - served >= alone_s * 1000 * MS) {
            control_resume_alone();
            served = vg_cl_now();
        }
        sleep(CONTROL_PAUSE_S);
    }
    return NULL;
}

static bool control_is_forbidden;

void
vg_cl_control_forbid(void)
{
    control_is_forbidden = true;
    vg_cl_include_forbid();
}

void
vg_cl_control_start(void)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, before;

    if (control_is_forbidden)
        return;
    vg_cl_ending_watch();
    /* Signals are for the program's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, control_run, NULL) == 0)
        pthread_setname_np(thread, "vgpu-opencl");
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
