/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into vgpu-proxy, it writes a line to stderr for each file that may not be opened.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include <dlfcn.h>

#define DENIED_OPEN(name)                                                                          \
 int name(const char *path, int flags, ...)                                                        \
 {                                                                                                 \
  int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name);  \
  va_list more;                                                                                    \
  va_start(more, flags);                                                                           \
  int fd = real(path, flags, va_arg(more, mode_t));                                                \
  va_end(more);                                                                                    \
  return denied_check(path, fd >= 0) ? fd : -1;                                                    \
 }
#define DENIED_FOPEN(name)                                                                         \
 FILE *name(const char *path, const char *mode)                                                    \
 {                                                                                                 \
  FILE *(*real)(const char *, const char *) =                                                      \
      (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, #name);                            \
  FILE *file = real(path, mode);                                                                   \
  denied_check(path, file != NULL);                                                                \
  return file;                                                                                     \
 }

/* Returns IS_OPEN. */
static int
denied_check(const char *path, int is_open)
{
    int error = errno;

    if (!is_open && (error == EACCES || error == EPERM))
        fprintf(stderr, "DENIED %s: %s\n", path, strerror(error));
    errno = error;
    return is_open;
}

DENIED_OPEN(open)
DENIED_OPEN(open64)
DENIED_FOPEN(fopen)
DENIED_FOPEN(fopen64)
