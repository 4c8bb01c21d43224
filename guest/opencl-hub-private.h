/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions shared by the two files of the agent's OpenCL side: guest/opencl-hub.c has the
 * connections, guest/opencl-talk.c the messages to and from programs.
 */
#ifndef VG_GUEST_OPENCL_HUB_PRIVATE_H
#define VG_GUEST_OPENCL_HUB_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/opencl-hub.h"
#include "guest/opencl-seen.h"

enum {
    /* The time after which a program that an earlier agent stopped is resumed, unless another
     * component resumes it first; and the delay before a retry. */
    VG_OPENCL_ORPHAN_MS = 30000,
    VG_OPENCL_WORKERS_MAX = 8,
};

enum hub_told { HUB_TOLD_NOTHING, HUB_TOLD_PREPARE, HUB_TOLD_RESUME };

/* A program's progress in changing to another place. */
enum hub_move { HUB_MOVE_NONE, HUB_MOVE_STOPPING, HUB_MOVE_GOING, HUB_MOVE_BACK };

/* A program's connection. */
struct hub_program {
    /* 0 if this place is free. */
    uint32_t number;
    int fd;
    pid_t pid;
    uint64_t start;
    uid_t uid;
    /* In this order: it has said hello; it is stopped; this agent requested the stop and has not
     * resumed it yet; a slow resume has been reported; its own OpenCL is a proxy's. */
    bool is_known, is_released, is_wanted, is_late, is_remote;
    /* Outstanding answers: to one `ask`, and to one other request. */
    bool is_asked;
    enum hub_told told;
    /* place: the proxy that it uses, or used when it was stopped; empty for its own OpenCL.
     * told_place: the place last requested. move_to, move and why: the new place, progress, and
     * the reason for a failure. */
    char place[VG_OPENCL_PLACE_MAX], told_place[VG_OPENCL_PLACE_MAX], move_to[VG_OPENCL_PLACE_MAX];
    enum hub_move move;
    char why[256];
    /* The worker that had it stopped, or NULL if not for one worker alone. */
    const struct hub_worker *worker;
    /* As in struct vg_opencl_program. resume_us: time of the request to resume. */
    int64_t bytes, stopped_us, release_us, resume_us, return_us, stop_us;
    /* Deadline for its hello, or the time at which it is resumed if no other component does so;
     * INT64_MAX for never. */
    int64_t due_ms;
    char line[VG_OPENCL_LINE_MAX];
    size_t used;
};

struct hub_worker {
    /* -1 if this place is free. */
    int fd;
    bool is_hand;
};

struct vg_opencl_hub {
    const char *root;
    int epoll_fd, programs_fd, workers_fd;
    struct hub_program programs[VG_OPENCL_PROGRAMS_MAX];
    struct hub_worker workers[VG_OPENCL_WORKERS_MAX];
    /* The processes that were seen to hold a GPU. */
    struct vg_opencl_seen seen;
    uint32_t last_number;
    bool is_full_told;
};

/* guest/opencl-hub.c. Send a message to all workers, or to one. A worker that does not read is
 * disconnected. */
void vg_opencl_hub_send_all(vg_opencl_hub *hub, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void vg_opencl_hub_send_worker(vg_opencl_hub *hub, struct hub_worker *worker, const char *text);

/* Reports a new program to all workers. */
void vg_opencl_hub_announce(vg_opencl_hub *hub, const struct hub_program *program);

/* Ends a program's connection; why, or NULL, is for the log. */
void vg_opencl_hub_end_program(vg_opencl_hub *hub, struct hub_program *program, const char *why);

/* guest/opencl-talk.c. Sends a worker's request to a program. */
void vg_opencl_talk_send(vg_opencl_hub *hub, struct hub_worker *worker, struct hub_program *program,
                         const char *line);

/* Resumes a program in its previous place: immediately, or as soon as it reports that it is
 * stopped. */
void vg_opencl_talk_let_go_on(vg_opencl_hub *hub, struct hub_program *program);

/* Handles a line from a program, and may end the connection because of it. */
void vg_opencl_talk_take(vg_opencl_hub *hub, struct hub_program *program, const char *line);

#endif
