/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* What GLib stores before each error of the domain. */
struct error_private {
    int detail;
};

static pthread_once_t error_once = PTHREAD_ONCE_INIT;
static GQuark error_quark;

static struct error_private *
error_private_of(const GError *error)
{
    const size_t align = 2 * sizeof(gsize); /* like GLib's alignment */
    const size_t size = (sizeof(struct error_private) + align - 1) / align * align;

    return (struct error_private *)(uintptr_t)((const char *)error - size);
}

static void
error_init(GError *error)
{
    error_private_of(error)->detail = 0;
}

static void
error_copy(const GError *from, GError *to)
{
    *error_private_of(to) = *error_private_of(from);
}

static void
error_clear(GError *error)
{
    (void)error;
}

static void
error_register(void)
{
    error_quark = g_error_domain_register_static("vg-error-quark", sizeof(struct error_private),
                                                 error_init, error_copy, error_clear);
}

/* Returns the quark. ThreadSanitizer cannot follow a variable in G_DEFINE_EXTENDED_ERROR(). */
GQuark
vg_error_quark(void)
{
    pthread_once(&error_once, error_register);
    return error_quark;
}

int
vg_error_set_detail(GError **err, int detail)
{
    if (err && *err && (*err)->domain == VG_ERROR)
        error_private_of(*err)->detail = detail;
    return -1;
}

int
vg_error_detail(const GError *err)
{
    return err && err->domain == VG_ERROR ? error_private_of(err)->detail : 0;
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
        [VG_E_CONFLICT] = 5, [VG_E_UNREACHABLE] = 7, [VG_E_BUG] = 1,  [VG_E_UNUSABLE] = 1,
    };

    if (!err)
        return 0;
    if (err->domain != VG_ERROR || err->code < 0 || err->code >= VG_E_MAX)
        return 1;
    return codes[err->code];
}
