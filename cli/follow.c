/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/follow.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include <stdatomic.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/move-advice.h"
#include "cli/move-bars.h"
#include "cli/move-text.h"

#define MOVES_PATH "/v1/migrations/"

#define QUERY_NS (200 * VG_NS_PER_MS) /* between two queries */
#define DRAW_NS  (100 * VG_NS_PER_MS) /* between two updates of the screen */
#define RETRY_NS (60 * VG_NS_PER_S)

/* ---- Ctrl-C ---- */

static _Atomic(vg_client *) follow_client;
static volatile sig_atomic_t follow_caught;

static void
follow_on_interrupt(int signal_number)
{
    vg_client *client = atomic_load(&follow_client);

    (void)signal_number;
    follow_caught = 1;
    if (client)
        vg_client_interrupt(client);
}

void
vg_follow_catch_begin(vg_client *client)
{
    const struct sigaction action = {.sa_handler = follow_on_interrupt};

    atomic_store(&follow_client, client);
    sigaction(SIGINT, &action, NULL);
}

void
vg_follow_catch_end(void)
{
    if (!follow_caught)
        signal(SIGINT, SIG_DFL);
    atomic_store(&follow_client, NULL);
}

void
vg_follow_die_if_caught(void)
{
    if (!follow_caught)
        return;
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
}

/* ---- vgpud's answers ---- */

void
vg_follow_clear(vg_follow *follow)
{
    g_free(follow->path);
    json_object_put(follow->document);
    vg_migration_free(follow->move);
    *follow = (vg_follow){0};
}

/* Takes over the newest document of the move. */
static int
follow_take(vg_follow *follow, json_object *take_document, GError **err)
{
    g_autoptr(json_object) document = take_document;
    g_autoptr(GError) wrong = NULL;
    const struct vg_json_node root = vg_json_root(document);
    struct vg_migration *move = vg_record_read(&vg_migration_record, &root, &wrong);

    if (!move)
        return vg_error(err, VG_E_EXTERNAL, "the answer is not a move: %s", wrong->message);
    vg_migration_free(follow->move);
    json_object_put(follow->document);
    follow->move = move;
    follow->document = g_steal_pointer(&document);
    return 0;
}

static int
follow_query(vg_client *client, vg_follow *follow, GError **err)
{
    static const char *const lists[] = {"steps", "devices", NULL};
    json_object *document = NULL;

    if (vg_client_get(client, follow->path, lists, &document, err) < 0)
        return -1;
    return follow_take(follow, document, err);
}

/* rest is "", "/abort" or "/retry". */
static char *
follow_path(const char *id, const char *rest, const char *peer)
{
    g_autofree char *path = vg_client_path(MOVES_PATH, id, rest);
    g_autofree char *escaped = peer ? g_uri_escape_string(peer, NULL, FALSE) : NULL;

    return g_strconcat(path, escaped ? "?peer=" : NULL, escaped, NULL);
}

int
vg_follow_open(vg_client *client, const char *id, const char *peer, vg_follow *ret, GError **err)
{
    g_auto(vg_follow) follow = {.path = follow_path(id, "", peer)};

    if (follow_query(client, &follow, err) < 0)
        return -1;
    *ret = follow;
    follow = (vg_follow){0};
    return 0;
}

int
vg_follow_change(vg_client *client, const char *id, const char *verb, const char *peer,
                 vg_follow *ret, GError **err)
{
    g_autofree char *rest = g_strconcat("/", verb, NULL);
    g_autofree char *path = follow_path(id, rest, peer);
    g_autoptr(json_object) body = json_object_new_object();
    g_auto(vg_follow) follow = {.path = follow_path(id, "", peer)};
    json_object *document = NULL;

    if (vg_client_post(client, path, body, &document, err) < 0 ||
        follow_take(&follow, document, err) < 0)
        return -1;
    *ret = follow;
    follow = (vg_follow){0};
    return 0;
}

/* Returns the peer whose vgpud runs the move, or NULL. The caller frees it. */
static char *
follow_peer(const vg_follow *follow)
{
    static const char parameter[] = "?peer=";
    const char *escaped = strstr(follow->path, parameter);

    return escaped ? g_uri_unescape_string(escaped + strlen(parameter), NULL) : NULL;
}

char *
vg_follow_command(const vg_follow *follow, const char *verb)
{
    g_autofree char *peer = follow_peer(follow);

    return vg_move_advice_command(follow->move, peer, verb);
}

char *
vg_follow_advice(const vg_follow *follow)
{
    g_autofree char *peer = follow_peer(follow);

    return vg_move_advice(follow->move, peer);
}

/* ---- starting ---- */

static void
follow_sleep(int64_t ns)
{
    const struct timespec time = {.tv_sec = (time_t)(ns / VG_NS_PER_S),
                                  .tv_nsec = (long)(ns % VG_NS_PER_S)};

    nanosleep(&time, NULL);
}

/* Returns whether there was no answer at all. */
static bool
follow_is_broken(const GError *error)
{
    return g_error_matches(error, VG_ERROR, VG_E_UNREACHABLE) ||
           g_error_matches(error, VG_ERROR, VG_E_TIMEOUT);
}

/* Repeats a POST until there is an answer, if the request may have been received. */
static int
follow_post(vg_client *client, json_object *body, struct vg_client_once *once, json_object **ret,
            GError **err)
{
    int64_t until_ns = 0;

    while (true) {
        g_autoptr(GError) error = NULL;
        if (vg_client_post_once(client, "/v1/migrations", body, once, ret, &error) == 0)
            return 0;
        if (until_ns == 0)
            until_ns = vg_clock_monotonic_ns() + RETRY_NS;
        const bool in_doubt = once->sent && follow_is_broken(error);
        if (!in_doubt || follow_caught || vg_clock_monotonic_ns() > until_ns) {
            if (in_doubt)
                g_prefix_error(&error,
                               "it is unknown whether the move has started; check with `vgpuctl "
                               "migration list --active`, or repeat the request with "
                               "Idempotency-Key %s (`vgpuctl migrate --idempotency-key`), which "
                               "does not start a second move: ",
                               once->key);
            g_propagate_error(err, g_steal_pointer(&error));
            return -1;
        }
        vg_cli_warn("%s; retrying, which does not start a second move", error->message);
        follow_sleep(QUERY_NS);
    }
}

/* Accepts only a path of this API, never another host. */
static int
follow_take_location(vg_follow *follow, const char *location, GError **err)
{
    if (location && !g_str_has_prefix(location, MOVES_PATH))
        return vg_error(err, VG_E_EXTERNAL, "the move's Location '%s' is not a path of vgpud's API",
                        location);
    follow->path = location ? g_strdup(location) : vg_client_path(MOVES_PATH, follow->move->id, "");
    return 0;
}

int
vg_follow_start(vg_client *client, json_object *body, const char *key, vg_follow *ret, GError **err)
{
    struct vg_client_once once = {.key = key};
    g_auto(vg_follow) follow = {0};
    json_object *document = NULL;
    int status = follow_post(client, body, &once, &document, err);

    if (status == 0)
        status = follow_take(&follow, document, err);
    if (status == 0)
        status = follow_take_location(&follow, once.location, err);
    g_free(once.location);
    if (status < 0)
        return -1;
    *ret = follow;
    follow = (vg_follow){0};
    return 0;
}

/* ---- to the end ---- */

struct follow_watch {
    struct vg_move_bars bars;
    int64_t heard_ns; /* CLOCK_MONOTONIC, the time of the last answer */
    int64_t until_ns; /* INT64_MAX for no limit */
    char *trouble;    /* the reason if there was no newer answer, or NULL */
};

static int
follow_abandon(const vg_follow *follow, enum vg_error_code code, const char *why, GError **err)
{
    g_autofree char *watch = vg_follow_command(follow, "watch");
    g_autofree char *abort = vg_follow_command(follow, "abort");

    return vg_error(err, code, "%s; the move continues (%s). `%s` watches it, `%s` cancels it", why,
                    vg_move_text_state(follow->move->state), watch, abort);
}

/* Tolerates a failure that may be temporary: vgpud, or the peer's, may be restarting. */
static int
follow_tolerate(struct follow_watch *watch, const vg_follow *follow, GError *take_error,
                GError **err)
{
    g_autoptr(GError) error = take_error;
    const int64_t silent_ns = vg_clock_monotonic_ns() - watch->heard_ns;
    const bool may_pass = follow_is_broken(error) || g_error_matches(error, VG_ERROR, VG_E_BUSY) ||
                          g_error_matches(error, VG_ERROR, VG_E_EXTERNAL);

    if (follow_caught)
        return 0;
    if (!may_pass || silent_ns > RETRY_NS) {
        vg_move_bars_end(&watch->bars);
        return follow_abandon(follow, (enum vg_error_code)error->code, error->message, err);
    }
    g_autofree char *time = vg_move_text_time(silent_ns);
    g_autofree char *line = g_strdup_printf("no update for %s: %s", time, error->message);
    if (!watch->trouble && !watch->bars.drawn)
        vg_cli_warn("%s; retrying for a minute", error->message);
    g_free(watch->trouble);
    watch->trouble = vg_printable_text(line);
    return 0;
}

/* Waits until the next query. Returns false at the end of the wait. */
static bool
follow_wait(struct follow_watch *watch, const vg_follow *follow)
{
    const int64_t until_ns = MIN(vg_clock_monotonic_ns() + QUERY_NS, watch->until_ns);
    int64_t now_ns;

    while ((now_ns = vg_clock_monotonic_ns()) < until_ns && !follow_caught) {
        vg_move_bars_show(&watch->bars, follow->move, watch->trouble);
        follow_sleep(MIN(DRAW_NS, until_ns - now_ns));
    }
    return now_ns < watch->until_ns && !follow_caught;
}

static int
follow_run(struct follow_watch *watch, vg_client *client, double timeout_s, vg_follow *follow,
           GError **err)
{
    while (!vg_migration_has_ended(follow->move->state)) {
        GError *error = NULL;
        if (!follow_wait(watch, follow)) {
            vg_move_bars_end(&watch->bars);
            if (follow_caught)
                return follow_abandon(follow, VG_E_EXTERNAL, "no longer watching", err);
            g_autofree char *why = g_strdup_printf("it is still running after %g s", timeout_s);
            return follow_abandon(follow, VG_E_TIMEOUT, why, err);
        }
        if (follow_query(client, follow, &error) == 0) {
            watch->heard_ns = vg_clock_monotonic_ns();
            g_clear_pointer(&watch->trouble, g_free);
        } else if (follow_tolerate(watch, follow, error, err) < 0) {
            return -1;
        }
    }
    vg_move_bars_show(&watch->bars, follow->move, NULL);
    return 0;
}

int
vg_follow_to_end(vg_client *client, FILE *to, double timeout_s, vg_follow *follow, GError **err)
{
    const int64_t now_ns = vg_clock_monotonic_ns();
    struct follow_watch watch = {
        .heard_ns = now_ns,
        .until_ns = timeout_s > 0 ? now_ns + (int64_t)(timeout_s * (double)VG_NS_PER_S) : INT64_MAX,
    };

    vg_move_bars_init(&watch.bars, to);
    int status = follow_run(&watch, client, timeout_s, follow, err);
    g_free(watch.trouble);
    return status;
}

/* ---- the result ---- */

int
vg_follow_result(const vg_follow *follow, enum vg_migration_state wanted, FILE *to, GError **err)
{
    const vg_migration *move = follow->move;
    const char *state = vg_move_text_state(move->state);
    g_autofree char *where = vg_move_text_where(move);
    g_autofree char *took = vg_move_text_time(vg_move_text_took_ns(move));
    g_autofree char *stood =
        move->standstill_ns > 0 ? vg_move_text_time(move->standstill_ns) : NULL;
    g_autofree char *down = vg_move_text_downtime(move);
    g_autofree char *story = vg_follow_command(follow, "show");
    g_autofree char *advice = vg_follow_advice(follow);
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree char *result =
        g_strdup_printf("%c%s after %s: %s%s%s%s%s.", g_ascii_toupper(state[0]), state + 1, took,
                        where, stood ? "; GPU programs were paused for " : "", stood ? stood : "",
                        down ? "; " : "", down ? down : "");

    vg_move_text_append_wrapped(text, 0, vg_move_bars_width(to), result);
    fputs(text->str, to);
    fflush(to);
    if (move->state == wanted ||
        (wanted == VG_MIGRATION_ROLLED_BACK && move->state == VG_MIGRATION_DONE))
        return 0;
    return vg_error(err, VG_E_EXTERNAL, "%s of %s to %s: %s: %s; `%s` shows the details%s%s",
                    move->id, move->vm, move->to, state,
                    move->cause ? move->cause : "the cause is unknown", story,
                    advice ? "; what now: " : "", advice ? advice : "");
}

FILE *
vg_follow_stream(enum vg_output_format format)
{
    return format == VG_OUTPUT_TABLE || format == VG_OUTPUT_WIDE ? stdout : stderr;
}

int
vg_follow_print(const vg_follow *follow, enum vg_output_format format, GError **err)
{
    static const struct vg_column columns[] = {
        {"MOVE", "id", VG_CELL_TEXT, false},     {"VM", "vm", VG_CELL_TEXT, false},
        {"UUID", "uuid", VG_CELL_TEXT, false},   {"FROM", "from", VG_CELL_TEXT, false},
        {"TO", "to", VG_CELL_TEXT, false},       {"STATE", "state", VG_CELL_TEXT, false},
        {"CAUSE", "cause", VG_CELL_TEXT, false}, {"VM ON", "vm_on", VG_CELL_TEXT, false},
        {"GPUS", "gpu", VG_CELL_TEXT, false},
    };

    if (vg_follow_stream(format) == stdout)
        return 0;
    g_autoptr(json_object) rows = json_object_new_array();
    vg_json_append(rows, json_object_get(follow->document));
    const struct vg_table table = {NULL, rows, columns, G_N_ELEMENTS(columns), NULL};
    return vg_output_print(format, follow->document, &table, 1, err);
}
