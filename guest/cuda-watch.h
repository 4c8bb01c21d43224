/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch: with uprobes, the agent observes which processes call libcuda functions that make
 * ties (guest/cuda-functions.h), from its start to its end, in each copy of the library that any
 * process maps, including those in containers. Its records are in a file below /run. Other
 * processes of the agent, and those started manually, request an update from the agent and then
 * map and read the file. The file outlives the agent, so that a new agent knows the ties that the
 * previous agent saw. No BPF is used. The probes are files of the agent and end with it, however
 * it ends.
 */
#ifndef VG_GUEST_CUDA_WATCH_H
#define VG_GUEST_CUDA_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/cuda-history.h"
#include "guest/work.h"

/* ---- in the agent ---- */

typedef struct vg_cuda_watch vg_cuda_watch;

/* Starts the watch. If that is impossible, the file has the reason. The caller ends it. */
vg_cuda_watch *vg_cuda_watch_start(const struct vg_guest_config *config);

/* Processes the events since the last call, places probes in new copies of the library, and
 * answers requests. Call every VG_CUDA_WATCH_MS, and after SIGUSR2. */
#define VG_CUDA_WATCH_MS 1000
void vg_cuda_watch_look(vg_cuda_watch *watch);

/* Removes the probes, but not the file. NULL is fine. */
void vg_cuda_watch_end(vg_cuda_watch *watch);

/* ---- in workers, and in processes started manually ---- */

#define VG_CUDA_COPIES_MAX 32
#define VG_CUDA_SEEN_MAX   1024

/* A copy of libcuda, with the kernel's own numbers for it, as /proc/PID/maps shows them. */
struct vg_cuda_copy {
    uint64_t device, inode;
    /* The time, in ns since boot, after which no call was missed; 0 if no probe is placed. */
    uint64_t since_ns;
    /* The reason if no probe could be placed. */
    char why[96];
};

/* A process that maps libcuda. */
struct vg_cuda_seen {
    int32_t pid;
    /* Bits of enum vg_cuda_tie. */
    uint32_t ties;
    /* The start in clock ticks, as in /proc/PID/stat. */
    uint64_t start;
    /* The index of the copy that it mapped last, and whether the copy had its probes by then. */
    uint32_t copy;
    uint32_t watched;
};

/* The file, which only the agent writes, except for `asked`. */
struct vg_cuda_watch_file {
    char magic[16];
    int32_t agent;
    /* Odd while the agent is writing. */
    uint32_t sequence;
    uint32_t asked, answered;
    /* Calls may have been missed until this time since boot. */
    uint64_t lost_ns;
    /* The reason why there is no watch, or empty. */
    char why[128];
    uint32_t n_copies, n_seen;
    struct vg_cuda_copy copies[VG_CUDA_COPIES_MAX];
    struct vg_cuda_seen seen[VG_CUDA_SEEN_MAX];
    /* More data about each of these processes. A file with the first layout ends here. */
    struct vg_cuda_history histories[VG_CUDA_SEEN_MAX];
};

/* Requests an update from the agent and copies its records. If no agent runs or it does not
 * answer, ret->why says so, and known ties are kept. */
void vg_cuda_watch_read(const char *root, struct vg_cuda_watch_file *ret);

/* Returns whether all calls that make ties have been seen of this process, which started at
 * `start`. ret_ties has the observed ties in either case; ret_why has the reason if some may be
 * missing. */
bool vg_cuda_watch_knows(const char *root, const struct vg_cuda_watch_file *file, pid_t pid,
                         uint64_t start, unsigned int *ret_ties, char *ret_why, size_t size);

/* Returns what was learned from the calls of this process, which started at `start`; NULL if it
 * made no relevant call. */
const struct vg_cuda_history *vg_cuda_watch_history(const struct vg_cuda_watch_file *file,
                                                    pid_t pid, uint64_t start);

/* Returns the only living process other than `pid` that offered memory to others, or 0 if there is
 * no such process or several. */
pid_t vg_cuda_watch_exporter(const char *root, const struct vg_cuda_watch_file *file, pid_t pid);

/* Counts the processes, other than those that is_known() accepts, that have libcuda mapped and an
 * NVIDIA node open. */
size_t vg_cuda_watch_count_users(const char *root, bool (*is_known)(void *user, pid_t pid),
                                 void *user);

#endif
