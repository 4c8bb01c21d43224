/* SPDX-License-Identifier: Apache-2.0
 *
 * What the made-up driver (fake-cuda.c) asks the programs that use it (fake-cuda-worker.c), through
 * a socket of each: one request, one answer.
 */
#ifndef VG_TESTS_GUEST_FAKE_CUDA_H
#define VG_TESTS_GUEST_FAKE_CUDA_H

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

#endif
