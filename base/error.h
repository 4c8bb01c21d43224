/* SPDX-License-Identifier: Apache-2.0
 *
 * The only error domain of the tree. A function that can fail returns 0 or -1 (or a pointer or
 * NULL) and takes a `GError **err` as its last argument. On failure, *err is set if err is not
 * NULL, and every `ret_` argument is unchanged. Callers add context with g_prefix_error(). Any
 * thread.
 */
#ifndef VG_BASE_ERROR_H
#define VG_BASE_ERROR_H

#include <glib.h>

enum vg_error_code {
    VG_E_INVALID,   /* the input is malformed or out of range */
    VG_E_NOT_FOUND, /* the named object does not exist */
    VG_E_BUSY,      /* in use; try again */
    VG_E_DENIED,    /* no permission */
    VG_E_REFUSED,   /* permitted, but refused by policy */
    VG_E_TIMEOUT,
    VG_E_IO,          /* reading or writing failed: disk, pipe, memory map */
    VG_E_EXTERNAL,    /* a library or program that vgpud uses failed */
    VG_E_CONFLICT,    /* the request conflicts with the present state (stale plan, duplicate) */
    VG_E_UNREACHABLE, /* the daemon does not answer */
    VG_E_BUG,         /* an invariant of this program does not hold */
    VG_E_UNUSABLE,    /* a file is damaged or of another version; only a person can mend this */
    VG_E_MAX
};

#define VG_ERROR (vg_error_quark())

GQuark vg_error_quark(void);

/* Sets *err and returns -1, so that a detecting function can `return vg_error(...)`. */
int vg_error(GError **err, enum vg_error_code code, const char *fmt, ...) G_GNUC_PRINTF(3, 4);

/* Adds a number to *err whose meaning the caller defines, for example in a table of the model. It
 * remains with the error when the message is extended. Returns -1, as vg_error() does. */
int vg_error_set_detail(GError **err, int detail);

/* Returns the number that vg_error_set_detail() added; 0 for NULL, for other domains, and if no
 * number was added. */
int vg_error_detail(const GError *err);

/* Does the same as vg_error(), with the code derived from errnum, and appends ": <strerror>". */
int vg_error_errno(GError **err, int errnum, const char *fmt, ...) G_GNUC_PRINTF(3, 4);

/* Reports to stderr a state that only a bug in this program, or json-c running out of memory, can
 * cause, and aborts. */
_Noreturn void vg_bug(const char *fmt, ...) G_GNUC_PRINTF(1, 2);

/* Returns the process's exit code for an error: 0 ok, 1 error, 2 usage, 3 not found, 4 refused by
 * policy, 5 conflict or stale, 6 timeout, 7 daemon unreachable. NULL is 0; an error of another
 * domain is 1. */
int vg_error_exit_code(const GError *err);

#endif
