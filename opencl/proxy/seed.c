/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/seed.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void
seed_write_file(const char *path, const unsigned char *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    size_t done = 0;

    if (fd < 0)
        return;
    for (ssize_t n = 1; done < size && n > 0; done += n > 0 ? (size_t)n : 0)
        n = write(fd, bytes + done, size - done);
    close(fd);
    /* The library must not read a partial file. */
    if (done < size)
        unlink(path);
}

void
vg_seed_write(const struct proxy_seed *seed, const char *folder)
{
    char path[PATH_MAX];
    const size_t before = strlen(folder) + 1;

    for (unsigned i = 0; i < seed->n; i++) {
        const struct proxy_seed_file *file = &seed->files[i];
        snprintf(path, sizeof path, "%s/%s", folder, file->path);
        for (char *end = strchr(path + before, '/'); end; end = strchr(end + 1, '/')) {
            *end = '\0';
            mkdir(path, 0700);
            *end = '/';
        }
        seed_write_file(path, seed->bytes + file->at, file->size);
    }
}
