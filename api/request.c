/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/request.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>

#include "api/route.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

#define VG_LOG_TAG "api"

#define JSON_TYPE    "application/json"
#define PROBLEM_TYPE "application/problem+json"

void
vg_answer_clear(struct vg_answer *answer)
{
    if (answer->view)
        vg_view_unref(answer->view);
    else
        g_free(answer->body);
    g_free(answer->location);
    g_free(answer->allow);
    memset(answer, 0, sizeof(*answer));
}

static void
set_text(struct vg_request *request, unsigned status, const char *type, char *take_text)
{
    request->answer.status = status;
    request->answer.type = type;
    request->answer.body = take_text;
    request->answer.size = strlen(take_text);
}

static void
answer_problem(struct vg_request *request, int problem, enum vg_refusal refusal, const char *detail)
{
    g_autofree char *path = g_strndup(request->uri, strcspn(request->uri, "?"));
    const struct vg_problem_kind *kind = vg_problem_kind(problem);

    vg_answer_clear(&request->answer);
    set_text(request, kind->status, PROBLEM_TYPE,
             vg_problem_text(problem, refusal, detail, path, request->request_id));
    /* A file that is damaged stays damaged. */
    if (kind->status == 503 && problem != VG_E_UNUSABLE)
        request->answer.retry_after_s = VG_RETRY_S;
}

void
vg_answer_problem(struct vg_request *request, int problem, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    g_autofree char *detail = g_strdup_vprintf(fmt, args);
    va_end(args);
    answer_problem(request, problem, VG_REFUSAL_NONE, detail);
}

void
vg_answer_nobody(struct vg_request *request, enum vg_refusal refusal, const char *why)
{
    answer_problem(request, VG_PROBLEM_NOBODY, refusal, why);
}

void
vg_answer_error(struct vg_request *request, GError *take_err)
{
    answer_problem(request, vg_problem_of(take_err), VG_REFUSAL_NONE,
                   take_err ? take_err->message : "unknown");
    g_clear_error(&take_err);
}

void
vg_answer_json(struct vg_request *request, unsigned status, json_object *take_object)
{
    set_text(request, status, JSON_TYPE, vg_json_to_text(take_object, false));
    json_object_put(take_object);
}

void
vg_answer_json_text(struct vg_request *request, char *take_text)
{
    set_text(request, 200, JSON_TYPE, take_text);
}

void
vg_answer_fixed(struct vg_request *request, const char *type, const char *text, size_t size)
{
    request->answer.status = 200;
    request->answer.type = type;
    request->answer.fixed = text;
    request->answer.size = size;
}

void
vg_view_etag(const vg_view *view, char ret[VG_ETAG_LEN])
{
    g_snprintf(ret, VG_ETAG_LEN, "\"%s-%" PRIu64 "\"", view->boot_id, view->seq);
}

void
vg_answer_etag(struct vg_request *request, const char *etag)
{
    struct vg_answer *answer = &request->answer;

    g_strlcpy(answer->etag, etag, VG_ETAG_LEN);
    if (answer->status != 200 || !vg_parse_etag_match(request->if_none_match, etag))
        return;
    answer->status = 304;
    answer->type = NULL;
}

void
vg_answer_view(struct vg_request *request, vg_view *take_view, enum vg_view_body body)
{
    char etag[VG_ETAG_LEN];

    /* The text belongs to the view and is not modified. */
    vg_answer_fixed(request, JSON_TYPE, NULL, 0);
    request->answer.body = (char *)vg_view_text(take_view, body, &request->answer.size);
    request->answer.view = take_view;
    vg_view_etag(take_view, etag);
    vg_answer_etag(request, etag);
}

static uint64_t
mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* The id is unique, but not secret: one random number from the kernel, followed by splitmix64. */
void
vg_request_id_make(char ret[VG_REQUEST_ID_LEN])
{
    static uint64_t seed;
    static uint64_t count;
    uint64_t start = __atomic_load_n(&seed, __ATOMIC_RELAXED);

    if (start == 0) {
        if (getrandom(&start, sizeof(start), GRND_NONBLOCK) != (ssize_t)sizeof(start))
            start = (uint64_t)vg_clock_realtime_ns();
        __atomic_store_n(&seed, start | 1, __ATOMIC_RELAXED);
    }
    uint64_t n = __atomic_add_fetch(&count, 2, __ATOMIC_RELAXED);
    uint64_t high = mix(start + n * UINT64_C(0x9e3779b97f4a7c15));
    uint64_t low = mix(start + (n + 1) * UINT64_C(0x9e3779b97f4a7c15));
    g_snprintf(ret, VG_REQUEST_ID_LEN, "req-%08x-%04x-4%03x-%04x-%012" PRIx64,
               (unsigned)(high >> 32), (unsigned)(high >> 16) & 0xffff, (unsigned)high & 0xfff,
               0x8000 | ((unsigned)(low >> 48) & 0x3fff), low & UINT64_C(0xffffffffffff));
}

int
vg_request_name_vm(const struct vg_request *request, char **name, GError **err)
{
    const struct vg_backend *backend = request->backend;
    g_autoptr(vg_view) view = backend->measurement->view(backend->data);
    GError *error = NULL;

    if (vg_view_find_vm(view, *name))
        return 0;
    const struct vg_snap_vm *vm = vg_view_name_vm(view, *name, &error);
    if (vm) {
        g_free(*name);
        *name = g_strdup(vg_view_vm_id(vm));
        return 0;
    }
    if (g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND)) {
        g_clear_error(&error);
        return 0;
    }
    g_propagate_error(err, error);
    return -1;
}

void
vg_request_accept_write(struct vg_request *request, void *take_data, GDestroyNotify free_data,
                        enum vg_lane lane, vg_job *job)
{
    vg_log_notice("write accepted by=\"%s\" from=\"%s\" route=\"%s %s\" request=%s",
                  request->identity.name, request->origin, request->method, request->route->path,
                  request->request_id);
    request->job_data = take_data;
    request->job_data_free = free_data;
    request->hosts[0] = g_strdup("");
    request->lane = lane;
    request->job = job;
}
