/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of NVIDIA's driver that vgpu-guestd makes, and nothing else, for tests/gpu/try-cuda to
 * compare: cuda-bare release|back row|beside PID... The two halves are two processes there, too.
 * All calls of one kind are made before those of the next; beside: each process's by one of its
 * own. Prints "PID CALL BEGAN_US ENDED_US RESULT" of each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

enum call { LOCK, CHECKPOINT, RESTORE, UNLOCK };

static long long
now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int
make(enum call call, int pid)
{
    static const char *const words[] = {"lock", "checkpoint", "restore", "unlock"};
    CUcheckpointLockArgs lock = {.timeoutMs = 10000};
    long long began = now_us();
    CUresult result = call == LOCK         ? cuCheckpointProcessLock(pid, &lock)
                      : call == CHECKPOINT ? cuCheckpointProcessCheckpoint(pid, NULL)
                      : call == RESTORE    ? cuCheckpointProcessRestore(pid, NULL)
                                           : cuCheckpointProcessUnlock(pid, NULL);

    printf("%d %s %lld %lld %d\n", pid, words[call], began, now_us(), (int)result);
    fflush(stdout);
    return result != CUDA_SUCCESS;
}

int
main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    enum call first = strcmp(argv[1], "release") == 0 ? LOCK : RESTORE;
    int beside = strcmp(argv[2], "beside") == 0, failed = 0, status;

    if (!beside) {
        if (cuInit(0) != CUDA_SUCCESS)
            return 1;
        for (enum call call = first; call <= first + 1; call++) {
            for (int i = 3; i < argc; i++)
                failed |= make(call, atoi(argv[i]));
        }
        return failed;
    }
    for (int i = 3; i < argc; i++) {
        if (fork() != 0)
            continue;
        if (cuInit(0) != CUDA_SUCCESS)
            _exit(1);
        _exit(make(first, atoi(argv[i])) | make(first + 1, atoi(argv[i])));
    }
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}
