/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/move-bars.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/printable.h"
#include "cli/move-text.h"

#define WIDTH_DEFAULT 80
#define NAME_WIDTH    11
#define TIME_WIDTH    11
#define TOLD_INDENT   (NAME_WIDTH + TIME_WIDTH + 2)
#define BAR_WIDTH     40
/* the width of the block that moves to and fro if the progress is unknown */
#define BLOCK_WIDTH 6
#define BLOCK_NS    (60 * VG_NS_PER_MS)

/* A step may have started before it was watched, on a host with a different clock. */
#define BEFORE_MAX_NS (24 * 3600 * VG_NS_PER_S)

void
vg_move_bars_init(struct vg_move_bars *bars, FILE *to)
{
    const char *term = getenv("TERM");

    *bars = (struct vg_move_bars){
        .to = to,
        .drawn = isatty(fileno(to)) && term && term[0] && strcmp(term, "dumb") != 0,
    };
}

int
vg_move_bars_width(FILE *to)
{
    struct winsize size;

    if (ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return WIDTH_DEFAULT;
}

/* ---- the screen ---- */

/* Moves the cursor to the first live line and clears the screen below. */
static void
bars_erase(struct vg_move_bars *bars)
{
    if (bars->live > 0)
        fputs("\r", bars->to);
    for (; bars->live > 1; bars->live--)
        fputs("\033[A", bars->to);
    if (bars->live > 0)
        fputs("\033[J", bars->to);
    bars->live = 0;
}

/* Draws a line, cut to the width of the terminal: erasing a wrapped line would leave a part. */
static void
bars_draw_live(struct vg_move_bars *bars, const char *line)
{
    g_autofree char *cut = g_utf8_substring(
        line, 0, MIN(g_utf8_strlen(line, -1), MAX(vg_move_bars_width(bars->to) - 1, 1)));

    fprintf(bars->to, "%s%s", bars->live > 0 ? "\n" : "", cut);
    bars->live++;
}

/* ---- a step ---- */

static void
bars_fill(char bar[BAR_WIDTH + 1], double done)
{
    const int filled = (int)(CLAMP(done, 0.0, 1.0) * BAR_WIDTH);

    memset(bar, '#', (size_t)filled);
    memset(bar + filled, ' ', (size_t)(BAR_WIDTH - filled));
    bar[BAR_WIDTH] = '\0';
}

static void
bars_fill_moving(char bar[BAR_WIDTH + 1], int64_t spent_ns)
{
    const int64_t way = BAR_WIDTH - BLOCK_WIDTH;
    const int64_t at = spent_ns / BLOCK_NS % (2 * way);

    bars_fill(bar, 0);
    memset(bar + (at <= way ? at : 2 * way - at), '#', BLOCK_WIDTH);
}

/* Fills a bar with a word, for example "[----------- failed -----------]". */
static void
bars_fill_word(char bar[BAR_WIDTH + 1], const char *word)
{
    g_autofree char *text = g_strdup_printf(" %s ", word);
    const size_t length = strlen(text);

    memset(bar, '-', BAR_WIDTH);
    bar[BAR_WIDTH] = '\0';
    memcpy(bar + (BAR_WIDTH - length) / 2, text, length);
}

static char *
bars_line(const struct vg_migration_step *step, const char *bar, int64_t spent_ns)
{
    g_autofree char *name = vg_printable_text(step->verb);
    g_autofree char *time = spent_ns >= 0 ? vg_move_text_seconds(spent_ns) : g_strdup("");

    return g_strdup_printf("%-*s[%s] %*s", NAME_WIDTH, name, bar, TIME_WIDTH, time);
}

static bool
bars_copies(const struct vg_migration_step *step)
{
    return strcmp(step->verb, "migrate") == 0 || strcmp(step->verb, "return") == 0;
}

/* Returns "768 MiB of 1.00 GiB, 128 MiB/s, dirty 1 MiB/s, iter. 2, ETA 2.0 s". */
static char *
bars_copy_line(const struct vg_migration_progress *progress, int width)
{
    g_autofree char *done = vg_move_text_bytes(progress->total_bytes - progress->remaining_bytes);
    g_autofree char *total = vg_move_text_bytes(progress->total_bytes);
    g_autofree char *rate = vg_move_text_bytes(progress->bytes_per_s);
    g_autofree char *dirty = vg_move_text_bytes(progress->dirty_bytes_per_s);
    g_autofree char *left =
        progress->eta_ns > 0 ? vg_move_text_time(progress->eta_ns) : g_strdup("unknown");

    g_autofree char *line = g_strdup_printf("%s of %s, %s/s, dirty %s/s, iter. %" PRId64 ", ETA %s",
                                            done, total, rate, dirty, progress->iteration, left);
    const int room = width - 1 - (int)strlen(line);

    return g_strdup_printf("%*s%s", CLAMP(room, 0, NAME_WIDTH), "", line);
}

/* ---- finished steps ---- */

static int64_t
bars_took_ns(const struct vg_migration_step *step)
{
    return step->ended_ns > 0 ? MAX(step->ended_ns - step->began_ns, 0) : -1;
}

static bool
bars_is_guest_step(const struct vg_migration_step *step)
{
    return strcmp(step->verb, "quiesce") == 0 || strcmp(step->verb, "resume") == 0 ||
           strcmp(step->verb, "revive") == 0;
}

/* Returns how much was copied or released from GPUs, for example "768 MiB", or "". */
static char *
bars_amount(const struct vg_migration_step *step, const vg_migration *move)
{
    const int64_t bytes = bars_copies(step)          ? move->progress.processed_bytes
                          : bars_is_guest_step(step) ? move->guest.gpu_bytes
                                                     : 0;

    return step->ok && bytes > 0 ? vg_move_text_bytes(bytes) : g_strdup("");
}

static void
bars_draw_ended(const struct vg_move_bars *bars, const struct vg_migration_step *step,
                const vg_migration *move)
{
    g_autofree char *amount = bars_amount(step, move);
    char bar[BAR_WIDTH + 1];

    if (step->ended_ns == 0)
        bars_fill_word(bar, "result unknown");
    else if (!step->ok)
        bars_fill_word(bar, "failed");
    else
        bars_fill(bar, 1);
    g_autofree char *line = bars_line(step, bar, bars_took_ns(step));
    fprintf(bars->to, "%s%s%s\n", line, amount[0] ? "  " : "", amount);
    if (step->ended_ns == 0 || step->ok || !step->answer)
        return;
    g_autoptr(GString) answer = g_string_new(NULL);
    vg_move_text_append_wrapped(answer, NAME_WIDTH, vg_move_bars_width(bars->to), step->answer);
    fputs(answer->str, bars->to);
}

/* Prints "detach          6.1 s". The reason for a failure continues below itself. */
static void
bars_print_ended(const struct vg_move_bars *bars, const struct vg_migration_step *step,
                 const vg_migration *move)
{
    g_autoptr(GString) rest = g_string_new(NULL);
    g_autofree char *name = vg_printable_text(step->verb);
    g_autofree char *amount = bars_amount(step, move);
    const int64_t took_ns = bars_took_ns(step);
    g_autofree char *time = took_ns >= 0 ? vg_move_text_seconds(took_ns) : g_strdup("?");
    g_autofree char *text = NULL;

    if (step->ended_ns == 0)
        text = g_strdup("result unknown");
    else if (!step->ok)
        text = g_strconcat("failed", step->answer ? ": " : NULL, step->answer, NULL);
    else if (amount[0] && bars_copies(step))
        text = g_strconcat(amount, " copied", NULL);
    else if (amount[0])
        text = g_strdup_printf("%" PRId64 " program%s, %s of GPU memory", move->guest.total,
                               move->guest.total == 1 ? "" : "s", amount);
    fprintf(bars->to, "%-*s%*s", NAME_WIDTH, name, TIME_WIDTH, time);
    if (text)
        vg_move_text_append_wrapped(rest, TOLD_INDENT, vg_move_bars_width(bars->to), text);
    fputs(text ? rest->str + TOLD_INDENT - 2 : "\n", bars->to);
}

static void
bars_print(struct vg_move_bars *bars, const vg_migration *move,
           const struct vg_migration_step *step)
{
    if (step->undoes && !bars->goes_back) {
        fputs("Rolling back: the completed steps are being undone.\n", bars->to);
        bars->goes_back = true;
    }
    if (bars->drawn)
        bars_draw_ended(bars, step, move);
    else
        bars_print_ended(bars, step, move);
}

/* ---- the running step ---- */

/* Sets the start of the running step (CLOCK_MONOTONIC). A step seen to start has just started. For
 * a step that was already running, only the other host's clock shows the time since its start. */
static void
bars_follow_step(struct vg_move_bars *bars, const struct vg_migration_step *step, guint number)
{
    const int64_t before_ns = vg_clock_realtime_ns() - step->began_ns;
    const bool is_plausible = before_ns > 0 && before_ns < BEFORE_MAX_NS;

    if (bars->running == number)
        return;
    bars->began_ns = vg_clock_monotonic_ns();
    if (!bars->began && is_plausible)
        bars->began_ns -= before_ns;
    bars->running = number;
}

static void
bars_draw_running(struct vg_move_bars *bars, const vg_migration *move,
                  const struct vg_migration_step *step)
{
    const struct vg_migration_progress *progress = &move->progress;
    const int64_t spent_ns = vg_clock_monotonic_ns() - bars->began_ns;
    const bool copies = bars_copies(step) && progress->total_bytes > 0;
    char bar[BAR_WIDTH + 1];
    double done = 0;

    if (copies) {
        done = 1 - (double)progress->remaining_bytes / (double)progress->total_bytes;
        bars_fill(bar, done);
    } else {
        bars_fill_moving(bar, spent_ns);
    }
    g_autofree char *line = bars_line(step, bar, spent_ns);
    g_autofree char *with_share =
        copies ? g_strdup_printf("%s  %3.0f %%", line, done * 100) : g_strdup(line);
    bars_draw_live(bars, with_share);
    if (bars_is_guest_step(step) && move->guest.doing) {
        g_autofree char *doing = g_strdup_printf("%*s%s", NAME_WIDTH, "", move->guest.doing);
        bars_draw_live(bars, doing);
    }
    if (!copies)
        return;
    g_autofree char *copy = bars_copy_line(progress, vg_move_bars_width(bars->to));
    bars_draw_live(bars, copy);
}

/* Draws the reason for a wait, or prints it once if nothing is drawn. */
static void
bars_print_waiting(struct vg_move_bars *bars, const vg_migration *move)
{
    g_autofree char *waits = vg_move_text_waits(move);
    g_autoptr(GString) line = g_string_new(NULL);
    const bool was_told = bars->waits;

    bars->waits = waits != NULL;
    if (!waits)
        return;
    g_autofree char *text = vg_printable_text(waits);
    if (bars->drawn) {
        bars_draw_live(bars, text);
    } else if (!was_told) {
        vg_move_text_append_wrapped(line, 0, vg_move_bars_width(bars->to), text);
        fputs(line->str, bars->to);
    }
}

static void
bars_begin(struct vg_move_bars *bars, const vg_migration *move)
{
    g_autoptr(GString) head = g_string_new(NULL);

    if (!bars->began)
        vg_printable_append_line(head, "%s: %s from %s to %s", move->id, move->vm, move->from,
                                 move->to);
    fputs(head->str, bars->to);
    bars->began = true;
}

void
vg_move_bars_show(struct vg_move_bars *bars, const vg_migration *move, const char *trouble)
{
    const bool has_ended = vg_migration_has_ended(move->state);
    const struct vg_migration_step *running = NULL;

    bars_erase(bars);
    if (move->steps->len > 0 && !has_ended) {
        running = move->steps->pdata[move->steps->len - 1];
        if (running->ended_ns > 0)
            running = NULL;
    }
    if (running)
        bars_follow_step(bars, running, move->steps->len);
    bars_begin(bars, move);
    for (; bars->told < move->steps->len - (running ? 1 : 0); bars->told++)
        bars_print(bars, move, move->steps->pdata[bars->told]);
    if (bars->drawn && running)
        bars_draw_running(bars, move, running);
    else if (bars->drawn && !has_ended)
        bars_draw_live(bars, "waiting for the next step");
    bars_print_waiting(bars, move);
    if (bars->drawn && trouble)
        bars_draw_live(bars, trouble);
    fflush(bars->to);
}

void
vg_move_bars_end(struct vg_move_bars *bars)
{
    if (bars->live > 0)
        fputc('\n', bars->to);
    bars->live = 0;
    fflush(bars->to);
}
