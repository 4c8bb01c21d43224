/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/seed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool
seed_write_file(const char *path, const unsigned char *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    size_t done = 0;

    for (ssize_t n = 1; fd >= 0 && done < size && n > 0; done += n > 0 ? (size_t)n : 0)
        n = write(fd, bytes + done, size - done);
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return fd >= 0 && done == size;
}

bool
vg_seed_write(const struct proxy_seed *seed, const char *folder)
{
    char path[PATH_MAX];
    const size_t before = strlen(folder) + 1;

    for (unsigned i = 0; i < seed->n; i++) {
        const struct proxy_seed_file *file = &seed->files[i];
        snprintf(path, sizeof path, "%s/%s", folder, file->path);
        for (char *end = strchr(path + before, '/'); end; end = strchr(end + 1, '/')) {
            *end = '\0';
            if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return false;
            *end = '/';
        }
        if (!seed_write_file(path, seed->bytes + file->at, file->size))
            return false;
    }
    return true;
}
