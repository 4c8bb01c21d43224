/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks whether the running vgpud is the installed one. After a package upgrade, the old program
 * runs until it is restarted.
 */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/doctor.h"

/* The kernel appends this to the path of a program whose file was removed or replaced. */
#define PROGRAM_DELETED " (deleted)"

int32_t
vg_doctor_find_pid(const char *socket_path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);

    if (strlen(socket_path) >= sizeof(address.sun_path))
        return 0;
    memcpy(address.sun_path, socket_path, strlen(socket_path));
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        peer.pid = 0;
    close(fd);
    return peer.pid;
}

void
vg_doctor_read_program(json_object *checks, int32_t pid, const char *version, const char *root)
{
    char path[PATH_MAX], program[PATH_MAX];

    if (pid <= 0 || !version)
        return;
    snprintf(path, sizeof(path), "%s/proc/%d/exe", root, pid);
    const ssize_t length = readlink(path, program, sizeof(program) - 1);
    /* Only vgpud's user and root may read this. */
    if (length < 0 && strcmp(version, PACKAGE_VERSION) == 0)
        return;
    program[MAX(length, 0)] = '\0';
    if (g_str_has_suffix(program, PROGRAM_DELETED))
        vg_doctor_add(checks, "program", VG_HEALTH_LACKS, "systemctl restart vgpud",
                      "vgpud %s is still running (process %d), but its file was replaced or "
                      "removed: a restart starts the installed version",
                      version, pid);
    else if (strcmp(version, PACKAGE_VERSION) != 0)
        vg_doctor_add(checks, "program", VG_HEALTH_LACKS, NULL,
                      "vgpud %s is running, and this vgpuctl is %s", version, PACKAGE_VERSION);
    else
        vg_doctor_add(checks, "program", VG_HEALTH_OK, NULL,
                      "vgpud %s is running, and is the installed version", version);
}
