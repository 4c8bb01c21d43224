/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenCL programs as seen by a worker process or a manual command: the programs connected to the
 * running agent (guest/opencl-hub.h), and the messages to and from them.
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
    /* It was requested to stop, and has not answered. */
    VG_OPENCL_STOPPING,
    VG_OPENCL_RELEASED,
    VG_OPENCL_GONE,
};

/* A program's answer to the last request. */
enum vg_opencl_answer {
    VG_OPENCL_SILENT,
    VG_OPENCL_YES,
    VG_OPENCL_NO,
    /* It could neither be stopped nor resumed. */
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
    /* is_away: it runs at a proxy or was sent there. place: that proxy, or the proxy that it used
     * before it was stopped, or empty. is_remote: its own OpenCL is a proxy's, as far as it was
     * queried. */
    bool is_away, is_remote;
    char place[VG_OPENCL_PLACE_MAX];
    /* It is changing to another place, which the caller has set. */
    bool is_moving;
    char move_to[VG_OPENCL_PLACE_MAX];
    /* The agent has seen it holding a GPU. Statements of other processes about GPUs are ignored,
     * because any process can connect to the agent. */
    bool is_seen;
    /* For the caller: it must be stopped or resumed, and it must be reported. */
    bool is_wanted, is_told;
    /* Device memory; the time of the stop request by CLOCK_MONOTONIC, and the duration of the
     * stop; the duration of the return, and of the whole pause. Each is -1 if not known. */
    int64_t bytes, stopped_us, release_us, return_us, stop_us;
    /* The time of the request to resume. */
    int64_t told_us;
    /* The reason why it cannot be released or resumed; otherwise empty. */
    char why[256];
};

struct vg_opencl_link {
    const char *root;
    int fd;
    size_t n;
    struct vg_opencl_program programs[VG_OPENCL_PROGRAMS_MAX];
    char message[VG_OPENCL_MESSAGE_MAX];
};

/* Connects to the running agent and lists its programs. is_hand: stopped programs are resumed if
 * this process ends. Returns 0, or -1 if no agent runs or it does not answer. */
int vg_opencl_link_open(struct vg_opencl_link *link, const char *root, bool is_hand);
void vg_opencl_link_close(struct vg_opencl_link *link);

/* Sends a line to a program: `ask`, `prepare MS`, `resume` or `resume at PLACE`. Alternatively,
 * makes the agent perform `move MS PLACE`, until `abort`, which is not answered. The program counts
 * as not answering until it answers. */
void vg_opencl_link_send(struct vg_opencl_link *link, struct vg_opencl_program *program,
                         const char *line);

/* Records, also for later workers, that this process has seen a program holding a GPU. */
void vg_opencl_link_saw(struct vg_opencl_link *link, struct vg_opencl_program *program);

/* Handles messages from programs, including new and ended connections, and waits for them until
 * until_ms or until the work is cancelled. Returns 0, or -1 if the agent has ended: missing answers
 * then remain missing. */
int vg_opencl_link_wait(struct vg_opencl_link *link, int64_t until_ms);

/* Counts the programs that are wanted and in this state, and have not answered yet. */
size_t vg_opencl_link_silent(const struct vg_opencl_link *link);

/* Returns whether a process is connected to the running agent as an OpenCL program. */
bool vg_opencl_link_has(const struct vg_opencl_link *link, pid_t pid);

#endif
