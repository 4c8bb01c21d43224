/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/printable.h"

#define ANSWER_MAX 16

int
vg_cli_fail(const GError *error)
{
    g_autofree char *text = vg_printable_text(error->message);

    fprintf(stderr, "vgpuctl: %s\n", text);
    return vg_error_exit_code(error);
}

/* Returns the formatted text, made printable. The caller frees it. */
G_GNUC_PRINTF(1, 0)
static char *
printable(const char *fmt, va_list args)
{
    g_autofree char *text = g_strdup_vprintf(fmt, args);

    return vg_printable_text(text);
}

void
vg_cli_warn(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    g_autofree char *shown = printable(fmt, args);
    va_end(args);
    fprintf(stderr, "vgpuctl: warning: %s\n", shown);
}

void
vg_cli_usage(const struct argp_state *state, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    g_autofree char *shown = printable(fmt, args);
    va_end(args);
    argp_error(state, "%s", shown);
}

bool
vg_cli_agrees(const char *fmt, ...)
{
    char answer[ANSWER_MAX] = "";
    va_list args;

    fputc('\n', stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputs(" [y/N] ", stderr);
    fflush(stderr);
    if (!fgets(answer, sizeof(answer), stdin))
        fputc('\n', stderr);
    g_strchomp(answer);
    return g_ascii_strcasecmp(answer, "y") == 0 || g_ascii_strcasecmp(answer, "yes") == 0;
}

int
vg_cli_print(const char *text, GError **err)
{
    if (fputs(text, stdout) == EOF || fflush(stdout) != 0)
        return vg_error_errno(err, errno, "cannot write to standard output");
    return 0;
}
