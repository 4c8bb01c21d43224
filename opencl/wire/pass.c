/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/pass.h"

#include <string.h>
#include <sys/socket.h>

union pass_control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

bool
vg_wire_pass(int socket, const void *bytes, size_t size, int fd, int flags)
{
    union pass_control control = {.align = {.cmsg_len = CMSG_LEN(sizeof fd),
                                            .cmsg_level = SOL_SOCKET,
                                            .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {(void *)(size_t)bytes, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        memcpy(CMSG_DATA(&control.align), &fd, sizeof fd);
    }
    return sendmsg(socket, &message, flags | MSG_NOSIGNAL) == (ssize_t)size;
}

ssize_t
vg_wire_pass_receive(int socket, void *bytes, size_t size, int *fd, int flags)
{
    union pass_control control;
    struct iovec part = {bytes, size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};

    *fd = -1;
    ssize_t n = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof *fd))
        memcpy(fd, CMSG_DATA(head), sizeof *fd);
    return n;
}
