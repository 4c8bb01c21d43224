/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/listen.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LISTEN_NEW ".new" /* suffix of a socket that does not listen yet */

/* Returns whether a process listens. A killed proxy leaves a socket without one. */
static bool
listen_is_used(const struct sockaddr_un *address, int type)
{
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    bool is_used =
        fd >= 0 && (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 ||
                    errno == EPROTOTYPE);

    if (fd >= 0)
        close(fd);
    return is_used;
}

int
vg_proxy_listen(const char *path, int type, mode_t mode)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;

    if (strlen(path) + strlen(LISTEN_NEW) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    if (listen_is_used(&address, type)) {
        errno = EADDRINUSE;
        return -1;
    }
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode))
        unlink(path);
    /* Any process that sees the socket in its place can connect. */
    strcat(address.sun_path, LISTEN_NEW);
    if (lstat(address.sun_path, &status) == 0 && S_ISSOCK(status.st_mode))
        unlink(address.sun_path);
    mode_t before = umask(0177);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    umask(before);
    if (ok && chmod(address.sun_path, mode) == 0 && listen(fd, 64) == 0 &&
        link(address.sun_path, path) == 0) {
        unlink(address.sun_path);
        return fd;
    }
    int error = errno;
    if (ok)
        unlink(address.sun_path);
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}
