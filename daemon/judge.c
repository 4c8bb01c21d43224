/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/judge.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "cluster/peer-moves.h"
#include "daemon/judge-figures.h"

#define VG_LOG_TAG "judge"

#define CHECK_NS (3 * VG_NS_PER_S)

/* Older moves are not judged, as their steps may have expired. */
#define PAST_NS (86400 * VG_NS_PER_S)

/* The time after a move that is not compared because the VM settles, and the time until the last
 * window is stored. */
#define SETTLE_NS (10 * VG_NS_PER_S)
#define LATE_NS   (15 * VG_NS_PER_S)

/* The minimum number of attempts to read a host's figures, and the minimum time for them as a
 * multiple of the compared time. */
#define TRIES_MIN    3
#define AGAIN_NS     (60 * VG_NS_PER_S) /* between later attempts */
#define TRIES_LENGTH 12

/* The maximum number of other hosts for comparison. */
#define OTHERS_MAX 16

/* The number of each host's newest moves that are searched for moves of the group. */
#define GROUP_LIMIT 100

struct vg_judge {
    struct vg_judge_parts parts;
    vg_thread *thread;
    pthread_mutex_t lock;
    uint64_t counts[VG_VERDICT_MAX]; /* The lock protects this member. */
    /* Only the thread uses these members. */
    GHashTable *tries; /* move id -> number of failed attempts to read its figures */
    int64_t next_ns;   /* epoch, the time of the next check; INT64_MAX if no move needs one */
    bool has_checked;
    unsigned ends; /* vg_mover_ends() at the last check */
};

/* Moves that are judged together. */
struct judge_case {
    const struct vg_migration *move;
    /* struct vg_migration: all moves of the group, including this one; borrowed */
    GPtrArray *moves;
    GPtrArray *listed; /* struct vg_host_moves that own them, or NULL */
    char *missing;     /* the reason if a move of the group may not have ended, or NULL */
};

static void
judge_case_clear(struct judge_case *one)
{
    g_ptr_array_unref(one->moves);
    g_clear_pointer(&one->listed, g_ptr_array_unref);
    g_free(one->missing);
}

/* ---- the moves of a group ---- */

static bool
judge_is_of_group(const struct vg_migration *move, const struct vg_migration *other)
{
    return strcmp(move->id, other->id) != 0 && other->state == VG_MIGRATION_DONE &&
           other->group == move->group && g_strcmp0(other->plan_id, move->plan_id) == 0;
}

static void
judge_add_group(struct judge_case *one, const GPtrArray *moves)
{
    for (guint i = 0; i < moves->len; i++) {
        if (judge_is_of_group(one->move, moves->pdata[i]))
            g_ptr_array_add(one->moves, moves->pdata[i]);
    }
}

/* Finds the other moves of the group, some of which peers run. own lists the moves of this host. */
static void
judge_find_group(const struct vg_judge *judge, const GPtrArray *own, struct judge_case *one)
{
    if (!one->move->plan_id || one->move->group_moves <= 1)
        return;
    judge_add_group(one, own);
    one->listed = vg_peer_all_moves(judge->parts.peers, false, GROUP_LIMIT);
    for (guint i = 0; i < one->listed->len; i++)
        judge_add_group(one, ((const struct vg_host_moves *)one->listed->pdata[i])->moves);
    if (one->moves->len != (guint)one->move->group_moves)
        one->missing = g_strdup_printf("it is one of %" G_GINT64_FORMAT " moves that belong "
                                       "together; %u of them are known to be done",
                                       one->move->group_moves, one->moves->len);
}

/* ---- times ---- */

static int64_t
judge_begin_of(const struct vg_migration *move)
{
    const struct vg_migration_step *first = move->steps->len > 0 ? move->steps->pdata[0] : NULL;

    return first ? first->began_ns : move->made_ns;
}

static struct judge_times
judge_times_of(const GPtrArray *moves, int64_t length_ns)
{
    int64_t begin_ns = INT64_MAX, end_ns = 0;

    for (guint i = 0; i < moves->len; i++) {
        begin_ns = MIN(begin_ns, judge_begin_of(moves->pdata[i]));
        end_ns = MAX(end_ns, ((const struct vg_migration *)moves->pdata[i])->ended_ns);
    }
    return (struct judge_times){
        .before_ns = begin_ns / VG_VERDICT_STEP_NS * VG_VERDICT_STEP_NS - length_ns,
        .after_ns = ((end_ns + SETTLE_NS - 1) / VG_VERDICT_STEP_NS + 1) * VG_VERDICT_STEP_NS,
        .length_ns = length_ns,
    };
}

/* ---- figures ---- */

static struct vg_verdict_host *
judge_find_host(const GPtrArray *hosts, const char *name)
{
    for (guint i = 0; i < hosts->len; i++) {
        struct vg_verdict_host *host = hosts->pdata[i];
        if (strcmp(host->name, name) == 0)
            return host;
    }
    return NULL;
}

/* Returns a host of the moves. Reads it first if necessary. */
static struct vg_verdict_host *
judge_need_host(const struct vg_judge *judge, GPtrArray *hosts, const char *name,
                const struct judge_times *times)
{
    const struct judge_sources sources = {judge->parts.store, judge->parts.peers};
    struct vg_verdict_host *host = judge_find_host(hosts, name);

    if (host)
        return host;
    if (strcmp(name, vg_mover_host(judge->parts.mover)) == 0) {
        host = judge_read_host(&sources, name, NULL, times);
    } else {
        struct vg_peer_info *peer = vg_peers_find(judge->parts.peers, name);
        host = judge_read_host(&sources, name, peer ? peer->name : name, times);
        vg_peer_info_free(peer);
    }
    g_ptr_array_add(hosts, host);
    return host;
}

/* Adds hosts for comparison. The first one depends on the move, so that the queries are spread over
 * all hosts. */
static void
judge_add_others(const struct vg_judge *judge, struct vg_verdict_question *question,
                 const struct judge_case *one, const struct judge_times *times)
{
    const struct judge_sources sources = {judge->parts.store, judge->parts.peers};
    const char *own = vg_mover_host(judge->parts.mover);
    g_autoptr(GPtrArray) peers = vg_peers_list(judge->parts.peers);
    const guint from = peers->len > 0 ? g_str_hash(one->move->id) % peers->len : 0;

    if (!judge_find_host(question->hosts, own))
        g_ptr_array_add(question->others, judge_read_host(&sources, own, NULL, times));
    for (guint i = 0; i < peers->len && question->others->len < OTHERS_MAX; i++) {
        const struct vg_peer_info *peer = peers->pdata[(from + i) % peers->len];
        if (peer->state != VG_PEER_REACHABLE || !peer->host ||
            peer->host_proof == VG_PROOF_DISPUTED || judge_find_host(question->hosts, peer->host) ||
            judge_find_host(question->others, peer->host))
            continue;
        vg_thread_beat(judge->thread);
        g_ptr_array_add(question->others, judge_read_host(&sources, peer->host, peer->name, times));
    }
}

static void
judge_query(const struct vg_judge *judge, const struct judge_case *one,
            const struct judge_times *times, struct vg_verdict_question *question)
{
    question->predicted = true;
    for (guint i = 0; i < one->moves->len; i++) {
        const struct vg_migration *move = one->moves->pdata[i];
        vg_thread_beat(judge->thread);
        judge_need_host(judge, question->hosts, move->from, times)->arrived--;
        judge_need_host(judge, question->hosts, move->to, times)->arrived++;
        question->predicted = question->predicted && move->predicted;
        question->cpu_gain += (double)move->predicted_gain_ns_per_s / (double)VG_NS_PER_S;
        question->gpu_gain += (double)move->predicted_gpu_ns_per_s / (double)VG_NS_PER_S;
    }
}

/* Judges the moves. Queries other hosts only if the hosts of the moves can be compared. */
static vg_move_verdict *
judge_decide(const struct vg_judge *judge, struct vg_verdict_question *question,
             const struct judge_case *one, const struct judge_times *times)
{
    vg_move_verdict *verdict = vg_record_new(&vg_move_verdict_record);

    vg_verdict_judge(question, verdict);
    if (!verdict->measured)
        return verdict;
    vg_move_verdict_free(verdict);
    judge_add_others(judge, question, one, times);
    verdict = vg_record_new(&vg_move_verdict_record);
    vg_verdict_judge(question, verdict);
    return verdict;
}

/* Returns whether the figures of one of the moves' hosts could not be read. */
static bool
judge_lacks_host(const struct vg_verdict_question *question)
{
    for (guint i = 0; i < question->hosts->len; i++) {
        if (((const struct vg_verdict_host *)question->hosts->pdata[i])->reason)
            return true;
    }
    return false;
}

/* ---- judging ---- */

static void
judge_want_check(struct vg_judge *judge, int64_t in_ns)
{
    judge->next_ns = MIN(judge->next_ns, vg_clock_realtime_ns() + in_ns);
}

static void
judge_store(struct vg_judge *judge, const struct vg_migration *move,
            const struct vg_move_verdict *verdict)
{
    g_autoptr(GError) error = NULL;

    if (vg_journal_save_outcome(judge->parts.journal, move->id, NULL, verdict, &error) < 0) {
        vg_log_warn_limited("cannot store a verdict id=%s reason=\"%s\"", move->id, error->message);
        judge_want_check(judge, CHECK_NS);
        return;
    }
    vg_log_notice("move judged id=%s vm=\"%s\" verdict=%s reason=\"%s\"", move->id, move->vm,
                  vg_verdict_names[verdict->result], verdict->why);
    g_hash_table_remove(judge->tries, move->id);
    VG_LOCK_SCOPE(&judge->lock);
    judge->counts[verdict->result]++;
}

/* Returns whether to try again because reading has failed, and records the time. */
static bool
judge_may_wait(struct vg_judge *judge, const struct vg_migration *move, int64_t due_ns,
               int64_t length_ns)
{
    const guint tries = GPOINTER_TO_UINT(g_hash_table_lookup(judge->tries, move->id)) + 1;

    g_hash_table_replace(judge->tries, g_strdup(move->id), GUINT_TO_POINTER(tries));
    if (tries >= TRIES_MIN && vg_clock_realtime_ns() >= due_ns + TRIES_LENGTH * length_ns)
        return false;
    judge_want_check(judge, tries < TRIES_MIN ? CHECK_NS : AGAIN_NS);
    return true;
}

static void
judge_one(struct vg_judge *judge, const struct judge_case *one,
          const struct vg_judge_settings *settings)
{
    const struct judge_times times = judge_times_of(one->moves, settings->length_ns);
    const int64_t due_ns = times.after_ns + times.length_ns + LATE_NS;
    g_autoptr(GPtrArray) hosts = g_ptr_array_new_with_free_func(vg_verdict_host_free);
    g_autoptr(GPtrArray) others = g_ptr_array_new_with_free_func(vg_verdict_host_free);
    struct vg_verdict_question question = {.hosts = hosts,
                                           .others = others,
                                           .min_gain = settings->min_gain,
                                           .gpu_weight = settings->gpu_weight};
    const int64_t left_ns = due_ns - vg_clock_realtime_ns();
    if (left_ns > 0) {
        judge_want_check(judge, left_ns);
        return;
    }
    judge_query(judge, one, &times, &question);
    if ((one->missing || judge_lacks_host(&question)) &&
        judge_may_wait(judge, one->move, due_ns, times.length_ns))
        return;
    g_autoptr(vg_move_verdict) verdict = judge_decide(judge, &question, one, &times);
    if (one->missing) {
        verdict->result = VG_VERDICT_CANNOT_TELL;
        g_free(verdict->why);
        verdict->why = g_strdup(one->missing);
    }
    verdict->judged_ns = vg_clock_realtime_ns();
    verdict->seconds = times.length_ns / VG_NS_PER_S;
    judge_store(judge, one->move, verdict);
}

static bool
judge_wants(const struct vg_migration *move, int64_t now_ns)
{
    return move->state == VG_MIGRATION_DONE && move->verdict.result == VG_VERDICT_NONE &&
           move->ended_ns > now_ns - PAST_NS;
}

static void
judge_check(struct vg_judge *judge)
{
    struct vg_judge_settings settings;
    const unsigned ends = vg_mover_ends(judge->parts.mover);
    g_autoptr(GPtrArray) moves = vg_journal_list_migrations(judge->parts.journal, false, INT64_MAX,
                                                            VG_JOURNAL_MIGRATIONS_MAX, NULL);

    if (!moves)
        return;
    judge->parts.settings(judge->parts.data, &settings);
    judge->has_checked = true;
    judge->next_ns = INT64_MAX;
    judge->ends = ends;
    for (guint i = 0; i < moves->len && !vg_thread_stopping(judge->thread); i++) {
        struct vg_migration *move = moves->pdata[i];
        vg_thread_beat(judge->thread);
        if (!judge_wants(move, vg_clock_realtime_ns()))
            continue;
        struct judge_case one = {.move = move, .moves = g_ptr_array_new()};
        g_ptr_array_add(one.moves, move);
        judge_find_group(judge, moves, &one);
        judge_one(judge, &one, &settings);
        judge_case_clear(&one);
    }
}

static void
judge_run(vg_thread *self, void *arg)
{
    struct vg_judge *judge = arg;

    pthread_mutex_lock(&judge->lock); /* held until `thread` is set */
    pthread_mutex_unlock(&judge->lock);
    do {
        if (!judge->has_checked || judge->next_ns <= vg_clock_realtime_ns() ||
            judge->ends != vg_mover_ends(judge->parts.mover))
            judge_check(judge);
    } while (vg_thread_sleep_until(self, vg_clock_monotonic_ns() + CHECK_NS));
}

/* ---- the public side ---- */

vg_judge *
vg_judge_new(const struct vg_judge_parts *parts, GError **err)
{
    vg_judge *judge = g_new0(vg_judge, 1);

    judge->parts = *parts;
    pthread_mutex_init(&judge->lock, NULL);
    judge->tries = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    pthread_mutex_lock(&judge->lock);
    judge->thread = vg_thread_new("judge", judge_run, NULL, judge, err);
    pthread_mutex_unlock(&judge->lock);
    if (!judge->thread)
        g_clear_pointer(&judge, vg_judge_free);
    return judge;
}

void
vg_judge_count(vg_judge *judge, uint64_t ret[VG_VERDICT_MAX])
{
    VG_LOCK_SCOPE(&judge->lock);
    memcpy(ret, judge->counts, sizeof(judge->counts));
}

void
vg_judge_stop(vg_judge *judge)
{
    if (judge)
        vg_thread_join(judge->thread);
}

void
vg_judge_free(vg_judge *judge)
{
    if (!judge)
        return;
    vg_thread_free(judge->thread);
    g_hash_table_destroy(judge->tries);
    pthread_mutex_destroy(&judge->lock);
    g_free(judge);
}
