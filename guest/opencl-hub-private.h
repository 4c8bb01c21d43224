/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two files of the agent's side of programs of OpenCL share: guest/opencl-hub.c has the
 * connections, and guest/opencl-talk.c what programs are told and say.
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
    /* The time after which a program goes on that an earlier agent has stopped, unless somebody
     * else has it do so; and the pause before this is tried again. */
    VG_OPENCL_ORPHAN_MS = 30000,
    VG_OPENCL_WORKERS_MAX = 8,
};

enum hub_told { HUB_TOLD_NOTHING, HUB_TOLD_PREPARE, HUB_TOLD_RESUME };

/* How far a program has come on its way to another place. */
enum hub_move { HUB_MOVE_NONE, HUB_MOVE_STOPPING, HUB_MOVE_GOING, HUB_MOVE_BACK };

/* A program's connection. */
struct hub_program {
    /* 0: this place is free. */
    uint32_t number;
    int fd;
    pid_t pid;
    uint64_t start;
    uid_t uid;
    /* It has said hello. It stands still. It was told to, by this agent, and not yet to go on. It
     * has said that this takes long. Its own OpenCL is a proxy's. */
    bool is_known, is_released, is_wanted, is_late, is_remote;
    /* What it has to answer: one `ask`, and one of the others. */
    bool is_asked;
    enum hub_told told;
    /* The proxy at which it is, or was when it was stopped, empty: at its own OpenCL; the one to
     * which it was told to go last; and how it comes to another one, and why that failed. */
    char place[VG_OPENCL_PLACE_MAX], told_place[VG_OPENCL_PLACE_MAX], move_to[VG_OPENCL_PLACE_MAX];
    enum hub_move move;
    char why[256];
    /* Who had it stopped, or NULL: not for him alone. */
    const struct hub_worker *worker;
    /* As in struct vg_opencl_program; resume_us: when it was told to go on. */
    int64_t bytes, stopped_us, release_us, resume_us, return_us, stop_us;
    /* The time by which it must have said hello, or at which it goes on if nobody else has it do
     * so; INT64_MAX for never. */
    int64_t due_ms;
    char line[VG_OPENCL_LINE_MAX];
    size_t used;
};

struct hub_worker {
    /* -1: this place is free. */
    int fd;
    bool is_hand;
};

struct vg_opencl_hub {
    const char *root;
    int epoll_fd, programs_fd, workers_fd;
    struct hub_program programs[VG_OPENCL_PROGRAMS_MAX];
    struct hub_worker workers[VG_OPENCL_WORKERS_MAX];
    /* The processes that were seen holding a GPU. */
    struct vg_opencl_seen seen;
    uint32_t last_number;
    bool is_full_told;
};

/* guest/opencl-hub.c. Sends one message, to all workers, or to one; one that does not read is
 * ended.
 */
void vg_opencl_hub_send_all(vg_opencl_hub *hub, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void vg_opencl_hub_send_worker(vg_opencl_hub *hub, struct hub_worker *worker, const char *text);

/* Tells all workers of a program that has come. */
void vg_opencl_hub_tell_of(vg_opencl_hub *hub, const struct hub_program *program);

/* Ends a program's connection; why, or NULL, is for the log. */
void vg_opencl_hub_end_program(vg_opencl_hub *hub, struct hub_program *program, const char *why);

/* guest/opencl-talk.c. Tells a program what a worker wants it to do. */
void vg_opencl_talk_tell(vg_opencl_hub *hub, struct hub_worker *worker, struct hub_program *program,
                         const char *line);

/* Has a program go on where it was: at once, or as soon as it says that it stands still. */
void vg_opencl_talk_let_go_on(vg_opencl_hub *hub, struct hub_program *program);

/* Takes a line that a program says, and may end it for that. */
void vg_opencl_talk_take(vg_opencl_hub *hub, struct hub_program *program, const char *line);

#endif
