/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/cuda-ties.h"

#include <string.h>

#include "guest/cuda-maps.h"
#include "guest/util.h"

/* The ties that prevent a process from being restored, by driver version. Up to 580, this was
 * tested on H100s and H200s, where all of them do. According to NVIDIA's documentation, from 610
 * on, processes that were started as a job may share memory and events among themselves. */
static const struct {
    int driver;
    bool is_job;
    unsigned int ties;
} rules[] = {
    {610, true,
     VG_CUDA_TIE_MULTICAST | VG_CUDA_TIE_EXTERNAL | VG_CUDA_TIE_MANAGED | VG_CUDA_TIE_PEER |
         VG_CUDA_TIE_POOL},
    {0, false,
     VG_CUDA_TIE_IMPORT | VG_CUDA_TIE_EVENT | VG_CUDA_TIE_MULTICAST | VG_CUDA_TIE_EXTERNAL |
         VG_CUDA_TIE_MANAGED | VG_CUDA_TIE_PEER | VG_CUDA_TIE_POOL},
};

/* The first driver whose jobs may share memory. */
#define DRIVER_OF_JOBS 610
/* The ties that such jobs may have. */
#define TIES_OF_JOBS ((unsigned int)VG_CUDA_TIE_IMPORT | VG_CUDA_TIE_EVENT)

/* The ties that NCCL makes. */
#define TIES_OF_NCCL ((unsigned int)VG_CUDA_TIE_IMPORT | VG_CUDA_TIE_MULTICAST)

enum {
    /* The maximum length of a part of a reason. */
    PART_MAX = 288,
};

static unsigned int
ties_in_the_way(const struct vg_cuda_tied *tied)
{
    size_t i = 0;

    while (tied->driver < rules[i].driver || (rules[i].is_job && !tied->is_job))
        i++;
    return tied->ties & rules[i].ties;
}

/* ---- large allocations that another GPU may access ---- */

/* Returns whether an allocation of at least this many bytes can exist. If the process has less on
 * each GPU, it was freed. */
static bool
ties_can_live(const struct vg_cuda_tied *tied, uint64_t bytes)
{
    return bytes > 0 && (tied->most_bytes < 0 || (uint64_t)tied->most_bytes >= bytes);
}

static bool
ties_has_peer(const struct vg_cuda_tied *tied)
{
    const struct vg_cuda_history *history = tied->history;

    /* Without memory on a second GPU, the process has no context there that could access any. */
    return history && tied->gpus != 1 && vg_cuda_history_has_peer(history) &&
           ties_can_live(tied, history->large_bytes);
}

static bool
ties_has_shared(const struct vg_cuda_tied *tied)
{
    return tied->history && vg_cuda_history_has_shared(tied->history) &&
           ties_can_live(tied, tied->history->created_bytes);
}

bool
vg_cuda_tied_wants_bytes(const struct vg_cuda_history *history)
{
    return history && (vg_cuda_history_has_peer(history) || vg_cuda_history_has_shared(history));
}

bool
vg_cuda_tied_could_have_peer(const struct vg_cuda_tied *tied)
{
    return tied->gpus != 1 && ties_can_live(tied, VG_CUDA_LARGE_BYTES);
}

/* ---- words ---- */

/* Returns whether function i made the tie or a part of it. */
static bool
ties_is_part(size_t i, unsigned int tie)
{
    enum vg_cuda_says says = vg_cuda_functions[i].says;

    return tie == VG_CUDA_TIE_PEER ? says != VG_CUDA_SAYS_TIE && says != VG_CUDA_SAYS_DISABLE
                                   : (vg_cuda_functions[i].tie & tie) != 0;
}

/* Writes the calls that made the tie, each with its library: "cuIpcOpenMemHandle_v2 called by
 * libcudart.so.12". The text is empty if none is known. */
static void
ties_put_calls(const struct vg_cuda_tied *tied, unsigned int tie, char *ret, size_t size)
{
    size_t used = 0;

    ret[0] = '\0';
    for (uint32_t i = 0; tied->history && i < tied->history->n_calls; i++) {
        size_t function = tied->history->calls[i].function;
        const char *library = tied->history->calls[i].library;
        if (function >= vg_cuda_functions_n || !ties_is_part(function, tie))
            continue;
        vg_guest_put(ret + used, size - used, "%s%s%s%s", used > 0 ? ", " : "",
                     vg_cuda_functions[function].name, *library ? " called by " : "", library);
        used = strlen(ret);
    }
}

/* Returns the libraries that made the calls of a tie. Sets *ret_others if one of them is
 * unknown. */
static unsigned int
ties_callers(const struct vg_cuda_tied *tied, unsigned int tie, bool *ret_others)
{
    unsigned int callers = 0;

    *ret_others = false;
    for (uint32_t i = 0; tied->history && i < tied->history->n_calls; i++) {
        size_t function = tied->history->calls[i].function;
        const char *library = tied->history->calls[i].library;
        if (function >= vg_cuda_functions_n || !ties_is_part(function, tie) || !*library)
            continue;
        callers |= vg_cuda_maps_library(library);
        *ret_others = *ret_others || vg_cuda_maps_library(library) == 0;
    }
    return callers;
}

/* Describes the tested solution for shared memory: NCCL's variables, if only NCCL shares memory.
 * For other libraries, no solution is known. */
static void
ties_put_sharing_remedy(const struct vg_cuda_tied *tied, unsigned int tie, char *ret, size_t size)
{
    static const char variables[] = "NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1";
    bool others;
    unsigned int callers = ties_callers(tied, tie, &others);

    ret[0] = '\0';
    if (!(tie & TIES_OF_NCCL))
        others = true;
    if (callers == VG_CUDA_LIBRARY_NCCL && !others)
        vg_guest_put(ret, size, "; it can be moved if it is started with %s", variables);
    else if (callers == 0 && !others && tied->libraries & VG_CUDA_LIBRARY_NCCL)
        vg_guest_put(ret, size,
                     "; it has NCCL loaded, and if NCCL made the call, it can be moved if it is "
                     "started with %s",
                     variables);
    if (tie & TIES_OF_JOBS && tied->driver >= DRIVER_OF_JOBS) {
        size_t used = strlen(ret);
        vg_guest_put(ret + used, size - used,
                     "; according to NVIDIA, this driver can if the program is started with "
                     "`cuda-checkpoint --launch-job`");
    }
}

/* Writes " (CALLS)", or nothing if no call is known. */
static void
ties_put_in_brackets(const struct vg_cuda_tied *tied, unsigned int tie, char *ret, size_t size)
{
    char calls[PART_MAX];

    ties_put_calls(tied, tie, calls, sizeof calls);
    vg_guest_put(ret, size, "%s%s%s", *calls ? " (" : "", calls, *calls ? ")" : "");
}

static void
ties_put_shared(const struct vg_cuda_tied *tied, unsigned int tie, const char *what, char *ret_why,
                size_t size)
{
    char calls[PART_MAX], remedy[PART_MAX];

    ties_put_in_brackets(tied, tie, calls, sizeof calls);
    ties_put_sharing_remedy(tied, tie, remedy, sizeof remedy);
    vg_guest_put(ret_why, size, "%s%s, and the driver cannot restore such a process%s", what, calls,
                 remedy);
}

static void
ties_put_import(const struct vg_cuda_tied *tied, char *ret_why, size_t size)
{
    char what[64] = "it uses memory of another process";

    if (tied->exporter > 0)
        vg_guest_put(what, sizeof what, "it uses memory of process %d", (int)tied->exporter);
    ties_put_shared(tied, VG_CUDA_TIE_IMPORT, what, ret_why, size);
}

/* Returns the solution that keeps PyTorch's allocations small, for programs that may use it. */
static const char *
ties_pieces(const struct vg_cuda_tied *tied)
{
    if (tied->libraries & VG_CUDA_LIBRARY_TORCH)
        return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or ";
    if (tied->libraries & VG_CUDA_LIBRARY_XLA)
        return "";
    return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PyTorch), or ";
}

static void
ties_put_peer(const struct vg_cuda_tied *tied, char *ret_why, size_t size)
{
    uint64_t bytes =
        ties_has_shared(tied) ? tied->history->created_bytes : tied->history->large_bytes;
    char calls[PART_MAX];

    ties_put_in_brackets(tied, VG_CUDA_TIE_PEER, calls, sizeof calls);
    vg_guest_put(ret_why, size,
                 "it has a single allocation of %llu MiB and lets one of its GPUs access another's "
                 "memory%s. The driver cannot restore a process if a GPU may access an allocation "
                 "of 512 MiB or more on another. Which GPUs may access which memory, and what was "
                 "freed, is only partly known. The program can be moved if it is started with "
                 "%sCUDA_VISIBLE_DEVICES naming one GPU",
                 (unsigned long long)(bytes >> 20), calls, ties_pieces(tied));
}

static void
ties_put_pool(const struct vg_cuda_tied *tied, char *ret_why, size_t size)
{
    char calls[PART_MAX];

    ties_put_in_brackets(tied, VG_CUDA_TIE_POOL, calls, sizeof calls);
    vg_guest_put(ret_why, size,
                 "it lets one of its GPUs access another's memory pool%s, and such programs failed "
                 "after the driver had restored them; it can be moved if it is started with "
                 "%sCUDA_VISIBLE_DEVICES naming one GPU",
                 calls, ties_pieces(tied));
}

bool
vg_cuda_tied_can_move(struct vg_cuda_tied *tied, char *ret_why, size_t size)
{
    if (ties_has_peer(tied) || ties_has_shared(tied))
        tied->ties |= VG_CUDA_TIE_PEER;
    /* Its only GPU may access its own pools. */
    if (tied->gpus == 1)
        tied->ties &= ~(unsigned int)VG_CUDA_TIE_POOL;
    unsigned int bad = ties_in_the_way(tied);
    char calls[PART_MAX];

    ret_why[0] = '\0';
    if (bad & VG_CUDA_TIE_MULTICAST)
        ties_put_shared(tied, VG_CUDA_TIE_MULTICAST,
                        "it has memory that several GPUs write to concurrently", ret_why, size);
    else if (bad & VG_CUDA_TIE_IMPORT)
        ties_put_import(tied, ret_why, size);
    else if (bad & VG_CUDA_TIE_EVENT)
        ties_put_shared(tied, VG_CUDA_TIE_EVENT, "it waits for another process's events", ret_why,
                        size);
    else if (bad & VG_CUDA_TIE_EXTERNAL)
        ties_put_shared(tied, VG_CUDA_TIE_EXTERNAL,
                        "it shares memory or semaphores with another API, such as Vulkan", ret_why,
                        size);
    else if (bad & VG_CUDA_TIE_MANAGED) {
        ties_put_in_brackets(tied, VG_CUDA_TIE_MANAGED, calls, sizeof calls);
        vg_guest_put(ret_why, size,
                     "it has allocated unified memory%s, which the driver cannot release", calls);
    } else if (bad & VG_CUDA_TIE_PEER)
        ties_put_peer(tied, ret_why, size);
    else if (bad & VG_CUDA_TIE_POOL)
        ties_put_pool(tied, ret_why, size);
    else if (tied->ties & ~((unsigned int)VG_CUDA_TIE_EXPORT))
        vg_guest_put(ret_why, size,
                     "it shares memory with processes of its job; according to the driver, it can "
                     "be restored");
    return bad == 0;
}
