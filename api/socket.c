/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <grp.h>

#include "api/api.h"
#include "base/error.h"

/* Three seconds in total. */
#define LOCK_TRIES    60
#define LOCK_PAUSE_US 50000

#define BACKLOG         1024
#define GROUP_BYTES_MAX (1024 * 1024) /* the maximum size of an entry in the group database */
#define PEER_GROUPS_MAX 65536         /* Linux's NGROUPS_MAX */

struct vg_socket {
    char *path;
    int fd;
    dev_t dev;
    ino_t ino;
    gid_t gid;
};

int
vg_api_find_group(const char *name, gid_t *ret, GError **err)
{
    struct group entry;
    struct group *found = NULL;
    int rc = ERANGE;

    for (size_t size = 1024; rc == ERANGE && size <= GROUP_BYTES_MAX; size *= 2) {
        g_autofree char *buffer = g_malloc(size);
        rc = getgrnam_r(name, &entry, buffer, size, &found);
    }
    if (rc != 0)
        return vg_error_errno(err, rc, "cannot look up '%s', the group of the socket", name);
    if (!found)
        return vg_error(err, VG_E_NOT_FOUND, "the group '%s' of the socket does not exist", name);
    *ret = entry.gr_gid;
    return 0;
}

static int
set_address(const char *path, struct sockaddr_un *ret, GError **err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (!*path)
        return vg_error(err, VG_E_INVALID, "the socket's path is empty");
    if (strlen(path) >= sizeof(address.sun_path))
        return vg_error(err, VG_E_INVALID, "'%s': a socket's path may have at most %zu bytes", path,
                        sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, strlen(path));
    *ret = address;
    return 0;
}

/* Removes the socket at the path if no process listens on it. */
static int
remove_stale(const char *path, const struct sockaddr_un *address, GError **err)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : vg_error_errno(err, errno, "'%s'", path);
    if (!S_ISSOCK(st.st_mode))
        return vg_error(err, VG_E_CONFLICT, "'%s' exists and is not a socket", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return vg_error_errno(err, errno, "cannot create a socket");
    int rc = connect(fd, (const struct sockaddr *)address, sizeof(*address));
    int errnum = errno;
    close(fd);
    if (rc == 0 || errnum == EAGAIN)
        return vg_error(err, VG_E_CONFLICT, "'%s': another process listens on this socket", path);
    if (errnum != ECONNREFUSED && errnum != ENOENT)
        return vg_error_errno(err, errnum, "'%s'", path);
    if (unlink(path) < 0 && errno != ENOENT)
        return vg_error_errno(err, errno, "cannot remove the old socket '%s'", path);
    return 0;
}

int
vg_socket_check(const char *path, GError **err)
{
    struct sockaddr_un address;

    return set_address(path, &address, err) < 0 ? -1 : remove_stale(path, &address, err);
}

/* Binds, sets mode and owner, and listens. No client can connect before listen(). */
static int
bind_and_listen(vg_socket *made, const struct sockaddr_un *address, unsigned mode, bool has_group,
                GError **err)
{
    struct stat st;

    if (bind(made->fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
        return vg_error_errno(err, errno, "cannot create the socket '%s'", made->path);
    if (lstat(made->path, &st) < 0)
        return vg_error_errno(err, errno, "'%s'", made->path);
    made->dev = st.st_dev;
    made->ino = st.st_ino;
    if (has_group && lchown(made->path, (uid_t)-1, made->gid) < 0)
        return vg_error_errno(err, errno, "cannot set the group of the socket '%s'", made->path);
    if (chmod(made->path, mode) < 0)
        return vg_error_errno(err, errno, "cannot set the mode of the socket '%s'", made->path);
    if (!has_group)
        made->gid = st.st_gid;
    if (listen(made->fd, BACKLOG) < 0)
        return vg_error_errno(err, errno, "cannot listen on '%s'", made->path);
    return 0;
}

/* Locks the directory, so that two daemons do not both remove the same stale socket. Any user who
 * can read the directory can hold the lock, so the wait is limited. */
static int
lock_directory(int fd)
{
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (errno != EWOULDBLOCK || i == LOCK_TRIES)
            return -1;
        g_usleep(LOCK_PAUSE_US);
    }
    return 0;
}

static int
make(vg_socket *made, unsigned mode, bool has_group, GError **err)
{
    g_autofree char *dir = g_path_get_dirname(made->path);
    struct sockaddr_un address;
    int result = -1;

    if (set_address(made->path, &address, err) < 0)
        return -1;
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return vg_error_errno(
            err, errno,
            "cannot open '%s', the socket's directory (create it, or configure another socket)",
            dir);
    made->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made->fd < 0)
        vg_error_errno(err, errno, "cannot create a socket");
    else if (lock_directory(dir_fd) < 0)
        vg_error_errno(err, errno, "cannot lock '%s', the socket's directory (flock)", dir);
    else if (remove_stale(made->path, &address, err) == 0)
        result = bind_and_listen(made, &address, mode, has_group, err);
    close(dir_fd);
    return result;
}

vg_socket *
vg_socket_new(const char *path, unsigned mode, const char *group, GError **err)
{
    vg_socket *made = g_new0(vg_socket, 1);
    bool has_group = group && *group;

    made->path = g_strdup(path);
    made->fd = -1;
    if ((has_group && vg_api_find_group(group, &made->gid, err) < 0) ||
        make(made, mode, has_group, err) < 0) {
        vg_socket_free(made);
        return NULL;
    }
    return made;
}

void
vg_socket_free(vg_socket *socket)
{
    struct stat st;

    if (!socket)
        return;
    if (socket->fd >= 0)
        close(socket->fd);
    if (socket->ino != 0 && lstat(socket->path, &st) == 0 && st.st_dev == socket->dev &&
        st.st_ino == socket->ino)
        unlink(socket->path);
    g_free(socket->path);
    g_free(socket);
}

int
vg_socket_take_fd(vg_socket *socket)
{
    int fd = socket->fd;

    socket->fd = -1;
    return fd;
}

gid_t
vg_socket_gid(const vg_socket *socket)
{
    return socket->gid;
}

int
vg_peer_read(int fd, struct vg_peer *ret, GError **err)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return vg_error_errno(err, errno, "cannot determine the socket's peer");
    *ret = (struct vg_peer){.uid = peer.uid, .gid = peer.gid, .pid = peer.pid};
    return 0;
}

/* Checks whether the group is among the peer's supplementary groups. */
static bool
peer_has_group(int fd, gid_t group)
{
    socklen_t size = 64 * sizeof(gid_t);
    g_autofree gid_t *groups = g_malloc(size);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0) {
        if (errno != ERANGE || size > PEER_GROUPS_MAX * sizeof(gid_t))
            return false;
        groups = g_realloc(groups, size);
        if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
            return false;
    }
    for (size_t i = 0; i < size / sizeof(gid_t); i++) {
        if (groups[i] == group)
            return true;
    }
    return false;
}

bool
vg_peer_has_group(int fd, const struct vg_peer *peer, gid_t group)
{
    return peer->gid == group || peer_has_group(fd, group);
}
