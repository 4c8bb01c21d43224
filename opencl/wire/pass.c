/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/pass.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
    if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
        return n;
    size_t n_fds = (head->cmsg_len - CMSG_LEN(0)) / sizeof *fd;
    for (size_t i = 0; i < n_fds; i++) {
        int one;
        memcpy(&one, CMSG_DATA(head) + i * sizeof one, sizeof one);
        /* There is exactly one, or the sender is faulty. */
        if (n_fds == 1)
            *fd = one;
        else
            close(one);
    }
    return n;
}
