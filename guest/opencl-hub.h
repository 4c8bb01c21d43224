/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's side of programs of OpenCL: the library in each (opencl/icd/control.h) connects to
 * the socket VG_OPENCL_SOCKET and says hello. The agent keeps these connections for as long as it
 * runs; workers, and commands that a person gives, reach programs through it (guest/opencl-link.h),
 * by messages of lines on the socket VG_OPENCL_HUB_SOCKET, which is root's:
 *
 *   hub     program NUMBER PID START STATE BYTES STOPPED_US RELEASE_US RETURN_US STOP_US PLACE
 *           for each program, and when one comes; -1: not known. The last two times are of one that
 *           goes on again, until programs are stopped again. PLACE: the proxy to which it was sent;
 *           or `own`; or `remote`, if its own OpenCL is a proxy's
 *   hub     seen NUMBER
 *           after it, if the agent has seen this program holding a GPU
 *   hub     all
 *           no more programs are there now
 *   worker  hand
 *           who began this is a person: if it ends, what it stopped goes on
 *   worker  seen NUMBER
 *           the worker has seen this program holding a GPU
 *   worker  tell NUMBER LINE
 *   worker  tell NUMBER move MS PLACE
 *           it is to go on at another proxy; -: at its own OpenCL
 *   hub     said NUMBER LINE
 *           also what others asked for; `busy`: it has an answer to give first; and in the end to
 *           `move`: `moved`; `stayed WHY`, where it was; `waits WHY`
 *   hub     gone NUMBER
 *
 * Programs are strangers: what they may do is counted and has a limit, and one that says what it
 * was not asked for is not listened to any more. All functions are for the agent's one thread, and
 * none waits.
 */
#ifndef VG_GUEST_OPENCL_HUB_H
#define VG_GUEST_OPENCL_HUB_H

#include <string.h>

/* The directory and the socket for programs, below root. Who mounts the directory into a container
 * lets programs there reach the agent, and agents that come after it. */
#define VG_OPENCL_DIR        "/run/vgpu-guestd"
#define VG_OPENCL_SOCKET     VG_OPENCL_DIR "/opencl.sock"
#define VG_OPENCL_HUB_SOCKET "/run/vgpu-guestd-opencl.sock"

/* The maximum number of programs, and of those of one user who is not root. */
#define VG_OPENCL_PROGRAMS_MAX 256
#define VG_OPENCL_PER_USER_MAX 64
/* The maximum length of a program's line, and of a message between hub and worker, in bytes. */
#define VG_OPENCL_LINE_MAX    512
#define VG_OPENCL_MESSAGE_MAX 98304
/* The size in bytes, with the NUL, of the name of a place. */
#define VG_OPENCL_PLACE_MAX 160
/* The maximum length of what a program says that is passed on, in bytes. */
#define VG_OPENCL_SAID_MAX 160
/* The largest number of bytes that a program is believed to have. */
#define VG_OPENCL_BYTES_MAX ((int64_t)1 << 48)

typedef struct vg_opencl_hub vg_opencl_hub;

/* Listens on both sockets below root, which is as for vg_guest_devices_read() and outlives the hub.
 * Returns NULL, after a message to the log, if that cannot be done. */
vg_opencl_hub *vg_opencl_hub_new(const char *root);

/* Ends all connections. The sockets' files stay, as they may be another agent's by now. NULL is
 * fine. */
void vg_opencl_hub_free(vg_opencl_hub *hub);

/* Returns a file that is ready to be read when vg_opencl_hub_serve() has something to do. */
int vg_opencl_hub_fd(const vg_opencl_hub *hub);

/* Takes what has come. */
void vg_opencl_hub_serve(vg_opencl_hub *hub);

/* To be called about once a second: forgets who has gone or says no hello, and lets programs go on
 * that an agent before this one has stopped, if nobody else does so. */
void vg_opencl_hub_look(vg_opencl_hub *hub);

/* Returns what follows in LINE after WORD and a space, or "" after WORD alone; NULL if LINE begins
 * with another word. */
static inline const char *
vg_opencl_after(const char *line, const char *word)
{
    size_t size = strlen(word);

    if (strncmp(line, word, size) != 0 || (line[size] != ' ' && line[size] != '\0'))
        return NULL;
    return line[size] ? line + size + 1 : "";
}

#endif
