/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of OpenCL as a worker process, or a command that a person gives, sees them: those that
 * are connected to the agent that runs (guest/opencl-hub.h), and what they are told and say.
 */
#ifndef VG_GUEST_OPENCL_LINK_H
#define VG_GUEST_OPENCL_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/opencl-hub.h"

enum vg_opencl_state {
    VG_OPENCL_RUNNING,
    /* It was told to stop, and has not answered. */
    VG_OPENCL_STOPPING,
    VG_OPENCL_RELEASED,
    VG_OPENCL_GONE,
};

/* How a program has answered what it was asked last. */
enum vg_opencl_answer {
    VG_OPENCL_SILENT,
    VG_OPENCL_YES,
    VG_OPENCL_NO,
    /* It neither could be stopped nor could go on. */
    VG_OPENCL_LOST,
};

struct vg_opencl_program {
    uint32_t number;
    pid_t pid;
    /* The start, as in struct vg_guest_process. */
    uint64_t start;
    char comm[32];
    enum vg_opencl_state state;
    enum vg_opencl_answer answer;
    /* It runs at a proxy, or was told to go there; that proxy, or the one at which it was before it
     * was stopped, or empty. Its own OpenCL is a proxy's, as far as it was asked. */
    bool is_away, is_remote;
    char place[VG_OPENCL_PLACE_MAX];
    /* It is on its way to another place, which the caller has set. */
    bool is_moving;
    char move_to[VG_OPENCL_PLACE_MAX];
    /* The agent has seen it holding a GPU. What others say of GPUs has no weight, as everybody may
     * connect to the agent. */
    bool is_seen;
    /* For the caller: it is to be stopped, or to go on; and it is to be told of. */
    bool is_wanted, is_told;
    /* Device memory; when it was told to stop, by CLOCK_MONOTONIC, and how long it took to; how
     * long it took to return, and stood still. Each is -1 if it is not known. */
    int64_t bytes, stopped_us, release_us, return_us, stop_us;
    /* When it was told to go on. */
    int64_t told_us;
    /* The reason why it cannot be released or does not go on; otherwise empty. */
    char why[256];
};

struct vg_opencl_link {
    const char *root;
    int fd;
    size_t n;
    struct vg_opencl_program programs[VG_OPENCL_PROGRAMS_MAX];
    char message[VG_OPENCL_MESSAGE_MAX];
};

/* Connects to the agent that runs, and lists its programs. is_hand: what is stopped goes on if this
 * process ends. Returns 0, or -1 if there is none or it does not answer. */
int vg_opencl_link_open(struct vg_opencl_link *link, const char *root, bool is_hand);
void vg_opencl_link_close(struct vg_opencl_link *link);

/* Tells a program a line: `ask`, `prepare MS`, `resume` or `resume at PLACE`; or has the agent have
 * it `move MS PLACE`, until `abort`, which is no question. Its answer is silent from then on. */
void vg_opencl_link_tell(struct vg_opencl_link *link, struct vg_opencl_program *program,
                         const char *line);

/* Notes, also for later workers, that this process has seen a program holding a GPU. */
void vg_opencl_link_saw(struct vg_opencl_link *link, struct vg_opencl_program *program);

/* Takes what programs have said, also that some have come or gone, and waits for it until until_ms
 * or until the work is to be cancelled. Returns 0, or -1 if the agent has ended: all answers that
 * are missing stay so. */
int vg_opencl_link_wait(struct vg_opencl_link *link, int64_t until_ms);

/* Counts the programs that are wanted and in this state, and have not answered yet. */
size_t vg_opencl_link_silent(const struct vg_opencl_link *link);

/* Returns whether a process is connected to the agent that runs as a program of OpenCL. */
bool vg_opencl_link_has(const struct vg_opencl_link *link, pid_t pid);

#endif
