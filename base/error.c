/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <stdatomic.h>

/* Returns the quark. G_DEFINE_QUARK() has a variable that two threads may write at once. */
GQuark
vg_error_quark(void)
{
    static _Atomic GQuark known;
    GQuark quark = atomic_load_explicit(&known, memory_order_relaxed);

    if (quark == 0) {
        quark = g_quark_from_static_string("vg-error-quark");
        atomic_store_explicit(&known, quark, memory_order_relaxed);
    }
    return quark;
}

static enum vg_error_code
code_from_errno(int errnum)
{
    switch (errnum) {
    case ENOENT:
    case ENOTDIR:
        return VG_E_NOT_FOUND;
    case EACCES:
    case EPERM:
        return VG_E_DENIED;
    case EBUSY:
    case EAGAIN:
        return VG_E_BUSY;
    case ETIMEDOUT:
        return VG_E_TIMEOUT;
    default:
        return VG_E_IO;
    }
}

int
vg_error(GError **err, enum vg_error_code code, const char *fmt, ...)
{
    if (!err)
        return -1;
    va_list args;
    va_start(args, fmt);
    g_autofree char *text = g_strdup_vprintf(fmt, args);
    va_end(args);
    g_set_error_literal(err, VG_ERROR, (int)code, text);
    return -1;
}

int
vg_error_errno(GError **err, int errnum, const char *fmt, ...)
{
    if (!err)
        return -1;
    va_list args;
    va_start(args, fmt);
    g_autofree char *text = g_strdup_vprintf(fmt, args);
    va_end(args);
    return vg_error(err, code_from_errno(errnum), "%s: %s", text, g_strerror(errnum));
}

void
vg_bug(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("vgpud: internal error: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

int
vg_error_exit_code(const GError *err)
{
    static const int codes[VG_E_MAX] = {
        [VG_E_INVALID] = 1,  [VG_E_NOT_FOUND] = 3,   [VG_E_BUSY] = 5, [VG_E_DENIED] = 1,
        [VG_E_REFUSED] = 4,  [VG_E_TIMEOUT] = 6,     [VG_E_IO] = 1,   [VG_E_EXTERNAL] = 1,
        [VG_E_CONFLICT] = 5, [VG_E_UNREACHABLE] = 7, [VG_E_BUG] = 1,
    };

    if (!err)
        return 0;
    if (err->domain != VG_ERROR || err->code < 0 || err->code >= VG_E_MAX)
        return 1;
    return codes[err->code];
}
