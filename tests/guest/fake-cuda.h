/* SPDX-License-Identifier: Apache-2.0
 *
 * What the made-up driver (fake-cuda.c) asks the programs that use it (fake-cuda-worker.c), through
 * a socket of each: one request, one answer.
 */
#ifndef VG_TESTS_GUEST_FAKE_CUDA_H
#define VG_TESTS_GUEST_FAKE_CUDA_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "guest/cuda-api.h"

#define FAKE_CUDA_PAIRS_MAX 16

struct fake_cuda_request {
    /* "state", "lock", "checkpoint", "restore", "unlock", or "fail": to be beyond help. */
    char op[16];
    unsigned timeout_ms;
    unsigned n_pairs;
    struct vg_cuda_pair pairs[FAKE_CUDA_PAIRS_MAX];
};

struct fake_cuda_answer {
    int result, state;
};

/* Writes the address of the socket of the program PID. The address leads through the directory's
 * descriptor, as the directory's own path may be longer than sun_path. Returns that descriptor, to
 * be closed after bind() or connect(). */
static inline int
fake_cuda_address(struct sockaddr_un *address, int pid)
{
    char path[4096];
    const char *dir = getenv("VG_FAKE_CUDA");

    snprintf(path, sizeof path, "%s/programs", dir ? dir : "");
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    address->sun_family = AF_UNIX;
    snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%d.sock", fd, pid);
    return fd;
}

#endif
