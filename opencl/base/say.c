/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/base/say.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int say_kept = -1;        /* log file; -1: not open */
static char say_number[16] = ""; /* number of this process; empty: use getpid() */

static int
say_open(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

void
vg_cl_say_keep(void)
{
    const char *path = secure_getenv("VGPU_OPENCL_LOG");
    ssize_t n = readlink("/proc/self", say_number, sizeof say_number - 1);

    say_number[n > 0 ? n : 0] = '\0';
    if (path)
        say_kept = say_open(path);
}

__attribute__((format(printf, 2, 0))) static void
say_line(const char *path, const char *format, va_list args)
{
    char line[1024], number[16];
    int fd = !path ? STDERR_FILENO : say_kept >= 0 ? say_kept : say_open(path);

    snprintf(number, sizeof number, "%d", (int)getpid());
    int used =
        snprintf(line, sizeof line, "vgpu-opencl[%s]: ", say_number[0] ? say_number : number);
    vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    strcat(line, "\n");
    if (fd < 0)
        return;
    ssize_t written = write(fd, line, strlen(line)); /* an error cannot be reported anywhere */
    (void)written;
    if (path && fd != say_kept)
        close(fd);
}

void
vg_cl_say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_line(secure_getenv("VGPU_OPENCL_LOG"), format, args);
    va_end(args);
}

void
vg_cl_log(const char *format, ...)
{
    const char *path = secure_getenv("VGPU_OPENCL_LOG");
    va_list args;

    if (!path)
        return;
    va_start(args, format);
    say_line(path, format, args);
    va_end(args);
}
