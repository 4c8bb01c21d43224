/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/problem.h"

#include "base/json.h"

static const struct vg_problem_kind kinds[] = {
    [VG_E_INVALID] = {"invalid", "Invalid request", 400},
    [VG_E_NOT_FOUND] = {"not-found", "Not found", 404},
    [VG_E_BUSY] = {"busy", "Busy, try again", 503},
    [VG_E_DENIED] = {"denied", "Not permitted", 403},
    [VG_E_REFUSED] = {"refused", "Refused", 422},
    [VG_E_TIMEOUT] = {"timeout", "Timed out", 504},
    [VG_E_IO] = {"io", "Read or write failed, try again", 503},
    [VG_E_EXTERNAL] = {"external", "A service that the daemon uses failed", 502},
    [VG_E_CONFLICT] = {"conflict", "Conflict with the current state", 409},
    [VG_E_UNREACHABLE] = {"unreachable", "A service that the daemon needs does not answer", 502},
    [VG_E_BUG] = {"bug", "Internal error", 500},
    [VG_E_UNUSABLE] = {"unusable", "A file of the daemon cannot be used", 503},
    [VG_PROBLEM_METHOD] = {"method-not-allowed", "Method not allowed", 405},
    [VG_PROBLEM_BODY_LONG] = {"body-too-long", "Body too long", 413},
    [VG_PROBLEM_URL_LONG] = {"url-too-long", "URL too long", 414},
    [VG_PROBLEM_TYPE] = {"wrong-type", "Wrong content type", 415},
    [VG_PROBLEM_TOO_MANY] = {"too-many", "Too many requests", 429},
    [VG_PROBLEM_HEADERS_LONG] = {"headers-too-long", "Header fields too long", 431},
    [VG_PROBLEM_NOBODY] = {"unauthorized", "The client is not authenticated", 401},
    [VG_PROBLEM_ABSENT] = {"not-offered", "Not offered by this vgpud", 501},
};

const struct vg_problem_kind *
vg_problem_kind(int problem)
{
    if (problem < 0 || problem >= VG_PROBLEM_MAX)
        problem = VG_E_BUG;
    return &kinds[problem];
}

int
vg_problem_of(const GError *err)
{
    if (!err || err->domain != VG_ERROR || err->code < 0 || err->code >= VG_E_MAX)
        return VG_E_BUG;
    return err->code;
}

char *
vg_problem_text(int problem, enum vg_refusal refusal, const char *detail, const char *instance,
                const char *request_id)
{
    const struct vg_problem_kind *kind = vg_problem_kind(problem);
    g_autofree char *type = g_strdup_printf("urn:vgpud:error:%s", kind->code);
    g_autoptr(json_object) object = json_object_new_object();

    vg_json_add_string(object, "type", type);
    vg_json_add_string(object, "title", kind->title);
    vg_json_add_int64(object, "status", kind->status);
    vg_json_add_string(object, "detail", detail);
    vg_json_add_string(object, "instance", instance);
    vg_json_add_string(object, "code", kind->code);
    if (vg_refusal_names[refusal])
        vg_json_add_string(object, "refusal", vg_refusal_names[refusal]);
    vg_json_add_string(object, "request_id", request_id);
    return vg_json_to_text(object, false);
}
