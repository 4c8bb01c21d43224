/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/top-ask.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/queue.h"
#include "base/thread.h"
#include "cli/output.h"

/* The maximum number of attempts: if a window is closed between two answers, all requests are
 * repeated. */
#define TRIES 3

struct vg_top_asker {
    vg_client *client; /* only the thread uses it */
    vg_queue *questions;
    vg_queue *answers;
    vg_thread *thread;
};

static void
question_free(void *data)
{
    struct vg_top_question *question = data;

    g_free(question->vm);
    g_free(question);
}

void
vg_top_answer_free(struct vg_top_answer *answer)
{
    if (!answer)
        return;
    vg_top_look_free(answer->look);
    g_clear_error(&answer->error);
    g_free(answer);
}

static void
answer_free(void *data)
{
    vg_top_answer_free(data);
}

/* ---- one query ---- */

static int
top_ask_host(vg_client *client, json_object **ret, GError **err)
{
    static const char *const lists[] = {"gpus", "parts", NULL};

    return vg_client_get(client, "/v1/host", lists, ret, err);
}

/* *ret stays NULL if vgpud does not know the VM. */
static int
top_ask_vm(vg_client *client, const char *id, json_object **ret, GError **err)
{
    static const char *const lists[] = {"vcpus", "lost_to", NULL};
    g_autofree char *path = vg_client_vm_path(id, "");
    GError *error = NULL;

    if (vg_client_get(client, path, lists, ret, &error) == 0)
        return 0;
    if (!g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND)) {
        g_propagate_error(err, error);
        return -1;
    }
    g_error_free(error);
    return 0;
}

/* A failure of the store must not affect the rest. */
static void
top_ask_history(vg_client *client, const struct vg_top_question *question,
                struct vg_top_detail *detail)
{
    static const char *const lists[] = {"items", NULL};
    g_autofree char *rest = g_strdup_printf("/samples?since=-%dmin", question->span_min);
    g_autofree char *path = vg_client_vm_path(question->vm, rest);
    g_autoptr(json_object) samples = NULL;
    g_autoptr(GError) error = NULL;

    if (vg_client_get(client, path, lists, &samples, &error) == 0)
        vg_top_detail_set_history(detail, samples);
    else
        detail->no_history = g_strdup(error->message);
}

/* Requests the VMs, and then the host. *host becomes the new host document. */
static vg_top_look *
top_ask_once(vg_client *client, const struct vg_top_question *question, json_object **host,
             GError **err)
{
    g_autoptr(json_object) vms = NULL;
    g_autoptr(json_object) vm = NULL;
    json_object *after = NULL;

    if (vg_client_list(client, "/v1/vms?limit=10000", &vms, err) < 0 ||
        (question->vm && top_ask_vm(client, question->vm, &vm, err) < 0) ||
        top_ask_host(client, &after, err) < 0)
        return NULL;
    json_object_put(*host);
    *host = after;
    vg_top_look *look = vg_top_look_new(after, vms);
    if (question->vm)
        look->detail = vg_top_detail_new(look, question->vm, vm);
    return look;
}

/* seq is the number of snapshots that vgpud has published. */
static int64_t
seq_of(json_object *host)
{
    return json_object_get_int64(vg_output_member(host, "measurement.seq"));
}

vg_top_look *
vg_top_look_ask(vg_client *client, const struct vg_top_question *question, GError **err)
{
    g_autoptr(json_object) host = NULL;
    g_autoptr(vg_top_look) look = NULL;
    int64_t seq = -1;

    if (top_ask_host(client, &host, err) < 0)
        return NULL;
    for (int i = 0; i < TRIES && seq != seq_of(host); i++) {
        seq = seq_of(host);
        g_clear_pointer(&look, vg_top_look_free);
        look = top_ask_once(client, question, &host, err);
        if (!look)
            return NULL;
    }
    if (look->detail && !look->detail->gone)
        top_ask_history(client, question, look->detail);
    return g_steal_pointer(&look);
}

/* ---- the thread ---- */

static void
top_ask_run(vg_thread *self, void *arg)
{
    vg_top_asker *asker = arg;

    while (!vg_thread_stopping(self)) {
        struct vg_top_question *question = vg_queue_get(asker->questions, VG_NS_PER_S);
        vg_thread_beat(self);
        if (!question)
            continue;
        struct vg_top_answer *answer = g_new0(struct vg_top_answer, 1);
        answer->look = vg_top_look_ask(asker->client, question, &answer->error);
        question_free(question);
        vg_queue_put(asker->answers, answer);
    }
}

static void
top_ask_wake(void *arg)
{
    vg_top_asker *asker = arg;

    vg_queue_close(asker->questions);
    vg_queue_close(asker->answers);
    vg_client_interrupt(asker->client);
}

vg_top_asker *
vg_top_asker_new(vg_client *take_client, GError **err)
{
    vg_top_asker *asker = g_new0(vg_top_asker, 1);

    asker->client = take_client;
    asker->questions = vg_queue_new(1, VG_QUEUE_BLOCK, question_free);
    asker->answers = vg_queue_new(1, VG_QUEUE_BLOCK, answer_free);
    asker->thread = vg_thread_new("top-ask", top_ask_run, top_ask_wake, asker, err);
    if (asker->thread)
        return asker;
    vg_top_asker_free(asker);
    return NULL;
}

void
vg_top_asker_free(vg_top_asker *asker)
{
    if (!asker)
        return;
    vg_thread_free(asker->thread);
    vg_queue_free(asker->questions);
    vg_queue_free(asker->answers);
    vg_client_free(asker->client);
    g_free(asker);
}

void
vg_top_asker_ask(vg_top_asker *asker, const char *vm, int span_min)
{
    struct vg_top_question *question = g_new0(struct vg_top_question, 1);

    question->vm = g_strdup(vm);
    question->span_min = span_min;
    vg_queue_put(asker->questions, question);
}

struct vg_top_answer *
vg_top_asker_take(vg_top_asker *asker)
{
    return vg_queue_get(asker->answers, 0);
}

int
vg_top_asker_fd(const vg_top_asker *asker)
{
    return vg_queue_fd(asker->answers);
}
