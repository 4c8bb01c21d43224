/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/icd/say.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((format(printf, 2, 0))) static void
say_line(const char *path, const char *format, va_list args)
{
    char line[1024];
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : STDERR_FILENO;

    int used = snprintf(line, sizeof line, "vgpu-opencl[%d]: ", (int)getpid());
    vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    strcat(line, "\n");
    if (fd < 0)
        return;
    ssize_t written = write(fd, line, strlen(line)); /* nobody is left to be told of an error */
    (void)written;
    if (path)
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
