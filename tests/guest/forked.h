/* SPDX-License-Identifier: Apache-2.0
 *
 * What forked.c and forked-waits.c share: a program with a node of a GPU, and its children.
 */
#ifndef VG_TESTS_GUEST_FORKED_H
#define VG_TESTS_GUEST_FORKED_H

#include <stdbool.h>
#include <sys/types.h>

enum { PAGE = 4096 };

/* What parent and child share. */
struct child {
    const char *kind;
    pid_t pid;
    /* 0, then 1 when it may go on. */
    int go;
    bool waits;
    int from_parent[2], socket[2], queue, semaphore;
    unsigned sent;
    char said[64];
};

struct kind {
    const char *name;
    /* Waits. Returns whether that came to an end as it should. */
    bool (*wait)(struct child *child);
    /* A signal, or a byte, has it go on. */
    int signal;
};

/* The node: open so that it is not passed on to programs, so that it is, and mapped. */
extern const char *node;
extern int node_fd, passed_fd;
extern unsigned char *map;

/* That of this name, or the first one. */
const struct kind *find_kind(const char *name);

#endif
