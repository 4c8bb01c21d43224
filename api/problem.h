/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors of requests, and their problem documents (RFC 9457). This is the only place where error
 * codes are mapped to HTTP statuses. Any thread.
 */
#ifndef VG_API_PROBLEM_H
#define VG_API_PROBLEM_H

#include <glib.h>

#include "base/error.h"
#include "model/identity.h"

/* The codes of enum vg_error_code come first, in their order. */
enum vg_problem {
    VG_PROBLEM_METHOD = VG_E_MAX,
    VG_PROBLEM_BODY_LONG,
    VG_PROBLEM_URL_LONG,
    VG_PROBLEM_TYPE,
    VG_PROBLEM_TOO_MANY,
    VG_PROBLEM_HEADERS_LONG,
    VG_PROBLEM_NOBODY,
    VG_PROBLEM_ABSENT,
    VG_PROBLEM_MAX
};

struct vg_problem_kind {
    const char *code; /* "not-found" */
    const char *title;
    unsigned status;
};

/* Returns the kind of a problem, from enum vg_problem or vg_error_code. */
const struct vg_problem_kind *vg_problem_kind(int problem);

/* Returns the code of an error; VG_E_BUG for other error domains. */
int vg_problem_of(const GError *err);

/* Returns the document; the caller frees it. */
char *vg_problem_text(int problem, enum vg_refusal refusal, const char *detail,
                      const char *instance, const char *request_id);

#endif
