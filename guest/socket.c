/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "guest/util.h"

#define LISTEN_MAX 64

/* Opens the directory of a path, and makes an address that is short and valid as long as the
 * directory is open. Returns the descriptor, or -1 and errno. *ret_name is the last component of
 * the path. */
static int
socket_open_dir(const char *root, const char *path, struct sockaddr_un *ret, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    vg_guest_auto char *dir = vg_guest_format("%s%.*s", root, (int)(slash - path), path);
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    vg_guest_put(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d%s", fd, slash);
    *ret_name = slash + 1;
    return fd;
}

/* Closes a descriptor and preserves errno. */
static int
socket_end(int fd, int dir, int result)
{
    int error = errno;

    if (dir >= 0)
        close(dir);
    if (result == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

int
vg_guest_socket_listen(const char *root, const char *path, int type, mode_t mode)
{
    struct sockaddr_un address;
    const char *name;
    int dir = socket_open_dir(root, path, &address, &name), result = -1;
    int fd = dir < 0 ? -1 : socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd >= 0) {
        unlinkat(dir, name, 0);
        mode_t before = umask(0777 & ~mode);
        result = bind(fd, (struct sockaddr *)&address, sizeof address);
        umask(before);
        if (result == 0)
            result = listen(fd, LISTEN_MAX);
    }
    return socket_end(fd, dir, result);
}

int
vg_guest_socket_connect(const char *root, const char *path, int type)
{
    struct sockaddr_un address;
    const char *name;
    int dir = socket_open_dir(root, path, &address, &name), result = -1;
    int fd = dir < 0 ? -1 : socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd >= 0)
        result = connect(fd, (struct sockaddr *)&address, sizeof address);
    return socket_end(fd, dir, result);
}
