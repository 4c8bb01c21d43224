/* SPDX-License-Identifier: Apache-2.0
 *
 * The main loop of `vgpuctl top`: handles keys, signals and answers, and draws the screen. The
 * asker's thread performs everything that takes time, so that keys work while vgpud hangs. All
 * output can be tested without a terminal:
 *
 *   top-ask     (own thread) requests /v1/host, /v1/vms, and the details of one VM
 *               -> top-look, plain data -> queue -> the loop
 *   top-model   keys, answers -> rates between two answers, rows, order, selection; pure
 *   top-draw    model -> grid: cells with the characters and their attributes; pure
 *   screen      grid -> the terminal; the only file that uses curses
 */
#include "config.h"

#include "cli/top.h"

#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/cli.h"
#include "cli/screen.h"
#include "cli/top-ask.h"
#include "cli/top-draw.h"
#include "cli/top-model.h"

/* The age of the figures is shown in seconds. */
#define REDRAW_NS VG_NS_PER_S

struct top {
    struct vg_top_model model;
    vg_screen *screen;
    vg_top_asker *asker;
    int64_t asked_ns; /* CLOCK_MONOTONIC, the time of the last request */
    bool is_querying; /* whether an answer is pending */
    bool query_again; /* send another request after the pending answer, which will be incomplete */
};

static void
top_query(struct top *top)
{
    top->query_again = top->is_querying;
    if (top->is_querying)
        return;
    top->is_querying = true;
    top->asked_ns = vg_clock_monotonic_ns();
    vg_top_asker_ask(top->asker, top->model.detail_id, vg_top_model_span_min(&top->model));
}

static void
take_answer(struct top *top)
{
    g_autoptr(vg_top_answer) answer = vg_top_asker_take(top->asker);

    if (!answer)
        return;
    top->is_querying = false;
    if (answer->look)
        vg_top_model_take(&top->model, g_steal_pointer(&answer->look));
    else
        vg_top_model_fail(&top->model, answer->error->message);
    if (top->query_again)
        top_query(top);
}

static void
draw(struct top *top)
{
    g_autoptr(vg_grid) grid = vg_screen_grid(top->screen);
    const struct vg_top_now now = {
        .epoch_ns = vg_clock_realtime_ns(),
        .asking_ns = top->is_querying ? vg_clock_monotonic_ns() - top->asked_ns : 0,
    };

    vg_top_draw(&top->model, grid, &now);
    vg_screen_draw(top->screen, grid);
}

/* Returns false if the key was the one to quit. */
static bool
take_keys(struct top *top)
{
    int key;

    while ((key = vg_screen_key(top->screen)) != VG_KEY_NONE) {
        switch (vg_top_model_key(&top->model, key)) {
        case VG_TOP_QUIT:
            return false;
        case VG_TOP_ASK:
            top_query(top);
            break;
        case VG_TOP_NOTHING:
        default:
            break;
        }
    }
    return true;
}

static int64_t
interval_ns(const struct top *top)
{
    return (int64_t)(top->model.interval_s * (double)VG_NS_PER_S);
}

/* Returns the time until the next request, or until the age must be redrawn. */
static int
wait_ms(const struct top *top)
{
    int64_t ns = REDRAW_NS;

    if (!top->is_querying && !top->model.paused)
        ns = MIN(ns, top->asked_ns + interval_ns(top) - vg_clock_monotonic_ns());
    return (int)(MAX(ns, 0) / VG_NS_PER_MS) + (ns > 0);
}

/* Runs until the user quits. Fails with VG_E_IO if the terminal is gone. */
static int
loop(struct top *top, GError **err)
{
    while (true) {
        draw(top);
        struct pollfd fds[] = {
            {.fd = STDIN_FILENO, .events = POLLIN},
            {.fd = vg_screen_signal_fd(top->screen), .events = POLLIN},
            {.fd = vg_top_asker_fd(top->asker), .events = POLLIN},
        };
        poll(fds, G_N_ELEMENTS(fds), wait_ms(top));
        int ends = vg_screen_take_signals(top->screen);
        if (ends != 0)
            vg_screen_die(g_steal_pointer(&top->screen), ends);
        if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            return vg_error(err, VG_E_IO, "the terminal no longer exists");
        if (!take_keys(top))
            return 0;
        take_answer(top);
        if (!top->is_querying && !top->model.paused &&
            vg_clock_monotonic_ns() - top->asked_ns >= interval_ns(top))
            top_query(top);
    }
}

/* Waits for the first answer before it opens the screen, so that a missing vgpud ends the program
 * with a message, as in all other commands. */
static int
top_run(struct top *top, const struct vg_remote_args *remote, GError **err)
{
    const struct vg_top_question all = {0};
    g_autoptr(vg_client) client = vg_client_new(remote, err);

    if (!client)
        return -1;
    vg_top_look *look = vg_top_look_ask(client, &all, err);
    if (!look)
        return -1;
    vg_top_model_take(&top->model, look);
    top->asked_ns = vg_clock_monotonic_ns();
    top->asker = vg_top_asker_new(g_steal_pointer(&client), err);
    if (!top->asker)
        return -1;
    top->screen = vg_screen_open();
    if (!top->screen)
        return vg_error(err, VG_E_EXTERNAL,
                        "this terminal does not support a full screen; try "
                        "--plain");
    return loop(top, err);
}

bool
vg_top_run(const struct vg_remote_args *remote, double interval_s, int *ret_status)
{
    struct top top = {0};
    g_autoptr(GError) error = NULL;

    if (!vg_screen_can_open())
        return false;
    vg_top_model_init(&top.model);
    top.model.interval_s = interval_s;
    int status = top_run(&top, remote, &error);
    /* Restore the terminal first, before waiting for the end of a request. */
    vg_screen_close(top.screen);
    vg_top_asker_free(top.asker);
    vg_top_model_clear(&top.model);
    *ret_status = status < 0 ? vg_cli_fail(error) : VG_EXIT_OK;
    return true;
}
