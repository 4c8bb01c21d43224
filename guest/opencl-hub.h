/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's OpenCL side. The library in each program (opencl/icd/control.h) connects to the
 * socket VG_OPENCL_SOCKET and says hello. The agent keeps these connections for as long as it
 * runs. Workers and manual commands reach programs through it (guest/opencl-link.h), with messages
 * of lines on the socket VG_OPENCL_HUB_SOCKET, which belongs to root:
 *
 *   hub     program NUMBER PID START STATE BYTES STOPPED_US RELEASE_US RETURN_US STOP_US PLACE
 *           for each program, and for each new one. -1 means not known. The last two times
 *           are of a resumed program, until programs are stopped again. PLACE is the proxy
 *           that it was sent to, or `own`, or `remote` if its own OpenCL is a proxy's
 *   hub     seen NUMBER
 *           after it, if the agent has seen this program holding a GPU
 *   hub     all
 *           end of the list of current programs
 *   worker  hand
 *           a user started this: if it ends, the programs that it stopped are resumed
 *   worker  seen NUMBER
 *           the worker has seen this program holding a GPU
 *   worker  tell NUMBER LINE
 *   worker  tell NUMBER move MS PLACE
 *           resume it at another proxy, or at its own OpenCL if PLACE is -
 *   hub     said NUMBER LINE
 *           also answers to other workers; `busy` if an answer is outstanding;
 *           finally for `move`: `moved`, or `stayed WHY` where it was, or `waits WHY`
 *   hub     gone NUMBER
 *
 * Programs are not trusted: their actions are counted and limited. A program that sends an
 * unsolicited answer is disconnected. All functions are for the agent's only thread, and none
 * blocks.
 */
#ifndef VG_GUEST_OPENCL_HUB_H
#define VG_GUEST_OPENCL_HUB_H

#include <string.h>

/* The directory and the socket for programs, below root. If the directory is mounted into a
 * container, programs there can reach this and later agents. */
#define VG_OPENCL_DIR        "/run/vgpu-guestd"
#define VG_OPENCL_SOCKET     VG_OPENCL_DIR "/opencl.sock"
#define VG_OPENCL_HUB_SOCKET "/run/vgpu-guestd-opencl.sock"

/* The maximum number of programs in total, and per user other than root. */
#define VG_OPENCL_PROGRAMS_MAX 256
#define VG_OPENCL_PER_USER_MAX 64
/* The maximum length of a program's line, and of a message between hub and worker, in bytes. */
#define VG_OPENCL_LINE_MAX    512
#define VG_OPENCL_MESSAGE_MAX 98304
/* The size in bytes, with the NUL, of the name of a place. */
#define VG_OPENCL_PLACE_MAX 160
/* The maximum length in bytes of text from a program that is passed on. */
#define VG_OPENCL_SAID_MAX 160
/* The largest number of bytes that a program can plausibly have. */
#define VG_OPENCL_BYTES_MAX ((int64_t)1 << 48)

typedef struct vg_opencl_hub vg_opencl_hub;

/* Listens on both sockets below root, which is as for vg_guest_devices_read() and outlives the hub.
 * Returns NULL, after a message to the log, if that cannot be done. */
vg_opencl_hub *vg_opencl_hub_new(const char *root);

/* Ends all connections. The sockets' files remain, because they may belong to another agent by
 * now. NULL is allowed. */
void vg_opencl_hub_free(vg_opencl_hub *hub);

/* Returns a descriptor that is readable when vg_opencl_hub_serve() has work. */
int vg_opencl_hub_fd(const vg_opencl_hub *hub);

/* Handles what has arrived. */
void vg_opencl_hub_serve(vg_opencl_hub *hub);

/* Call about once a second. Forgets programs that have exited or do not say hello, and resumes
 * programs that a previous agent stopped unless another component does so. */
void vg_opencl_hub_look(vg_opencl_hub *hub);

/* Returns the rest of LINE after WORD and a space, or "" after WORD alone; NULL if LINE starts
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
