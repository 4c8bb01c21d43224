/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch: with uprobes, the agent sees which processes call functions of libcuda that make ties
 * (guest/cuda-functions.h), from its start to its end, in each copy of the library that any process
 * maps, including those in containers. Its records are in a file below /run. Other processes of the
 * agent, and those started by hand, map and read the file, after they have asked the agent to look.
 * The file outlives the agent, so that a new one knows the ties that the last one saw. No BPF is
 * used; the probes are files of the agent and end with it, however it ends.
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

/* Begins the watch. If there can be none, the file has the reason. The caller ends it. */
vg_cuda_watch *vg_cuda_watch_start(const struct vg_guest_config *config);

/* Takes the events since the last look, places probes in new copies of the library, and answers
 * those who asked. To be called every VG_CUDA_WATCH_MS, and after SIGUSR2. */
#define VG_CUDA_WATCH_MS 1000
void vg_cuda_watch_look(vg_cuda_watch *watch);

/* Removes the probes; the file stays. NULL is fine. */
void vg_cuda_watch_end(vg_cuda_watch *watch);

/* ---- in workers, and in processes started by hand ---- */

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
    /* More about each of these processes. A file of the first layout ends here. */
    struct vg_cuda_history histories[VG_CUDA_SEEN_MAX];
};

/* Has the agent look, and copies its records. If there is no agent, or it does not answer, ret->why
 * says so, and known ties are kept. */
void vg_cuda_watch_read(const char *root, struct vg_cuda_watch_file *ret);

/* Returns whether all calls of this process that make ties have been seen; it began at `start`.
 * ret_ties has those that were seen, in either case; ret_why has the reason if not all were. */
bool vg_cuda_watch_knows(const char *root, const struct vg_cuda_watch_file *file, pid_t pid,
                         uint64_t start, unsigned int *ret_ties, char *ret_why, size_t size);

/* Returns what was learned of the calls of this process, which began at `start`; NULL if it made
 * none that count. */
const struct vg_cuda_history *vg_cuda_watch_history(const struct vg_cuda_watch_file *file,
                                                    pid_t pid, uint64_t start);

/* Returns the one living process other than `pid` that offered memory to others, or 0 if there is
 * none or more than one. */
pid_t vg_cuda_watch_exporter(const char *root, const struct vg_cuda_watch_file *file, pid_t pid);

/* Counts the processes, other than those that is_known() names, that have libcuda mapped and a node
 * of NVIDIA's open. */
size_t vg_cuda_watch_count_users(const char *root, bool (*is_known)(void *user, pid_t pid),
                                 void *user);

#endif
