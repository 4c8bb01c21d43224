/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/icd/say.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
vg_cl_say(const char *format, ...)
{
    char line[512];
    va_list args;
    const char *path = secure_getenv("VGPU_OPENCL_LOG");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : STDERR_FILENO;

    int used = snprintf(line, sizeof line, "vgpu-opencl[%d]: ", (int)getpid());
    va_start(args, format);
    vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    va_end(args);
    strcat(line, "\n");
    if (fd < 0)
        return;
    ssize_t written = write(fd, line, strlen(line)); /* nobody is left to be told of an error */
    (void)written;
    if (path)
        close(fd);
}
