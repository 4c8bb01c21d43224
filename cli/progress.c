/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <glib.h>

#define BAR_WIDTH   30
#define FIRST_NS    INT64_C(500000000)
#define INTERVAL_NS INT64_C(100000000)

static int64_t
monotonic_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void
vg_progress_init(struct vg_progress *progress, const char *label, bool wanted)
{
    *progress = (struct vg_progress){
        .shown = wanted && isatty(STDERR_FILENO),
        .label = label,
        .started_ns = monotonic_ns(),
    };
}

void
vg_progress_update(struct vg_progress *progress, double done)
{
    if (!progress->shown)
        return;
    int64_t now = monotonic_ns();
    if (now - progress->started_ns < FIRST_NS || now - progress->drawn_ns < INTERVAL_NS)
        return;
    progress->drawn = true;
    progress->drawn_ns = now;
    int filled = (int)(CLAMP(done, 0.0, 1.0) * BAR_WIDTH);
    double spent = (double)(now - progress->started_ns) / 1e9;
    fprintf(stderr, "\r\033[K%s [%.*s%*s] %3.0f %%", progress->label, filled,
            "##############################", BAR_WIDTH - filled, "", done * 100);
    if (done > 0.01)
        fprintf(stderr, "  %.0f s left", spent / done - spent);
    fflush(stderr);
}

void
vg_progress_end(struct vg_progress *progress)
{
    if (progress->drawn)
        fputs("\r\033[K", stderr);
    progress->drawn = false;
}
