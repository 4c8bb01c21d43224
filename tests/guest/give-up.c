/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks which processes could give up files that they inherited, or has them do it:
 *     give-up look|do NODE[,NODE...] OWNER PID...
 * Prints a line for each PID, "PID DESCRIPTORS MAPS WHY", where WHY is "ok", "ended" or a reason.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/child.h"
#include "guest/holder.h"
#include "guest/inheritor.h"
#include "guest/util.h"

enum { INHERITORS_MAX = 1024, NODES_MAX = 64, LIMIT_MS = 60000 };

static void
add_node(struct vg_guest_nodes *nodes, const char *path)
{
    struct vg_guest_node *node = &nodes->nodes[nodes->n++];
    struct stat st;

    if (stat(path, &st) != 0)
        exit(2);
    *node = (struct vg_guest_node){
        .rdev = S_ISCHR(st.st_mode) ? st.st_rdev : 0, .dev = st.st_dev, .ino = st.st_ino};
    vg_guest_put(node->path, sizeof node->path, "%s", path);
}

/* All who have the node. Returns how many. */
static size_t
find_holders(const struct vg_guest_nodes *nodes, pid_t *ret_pids)
{
    vg_guest_auto struct vg_guest_holder *holders =
        vg_guest_alloc(INHERITORS_MAX * sizeof *holders);
    size_t n = vg_guest_holders_find("", nodes, holders, INHERITORS_MAX);

    n = n < INHERITORS_MAX ? n : INHERITORS_MAX;
    for (size_t i = 0; i < n; i++)
        ret_pids[i] = holders[i].pid;
    return n;
}

int
main(int argc, char **argv)
{
    static struct vg_guest_inheritor inheritors[INHERITORS_MAX];
    static pid_t holders[INHERITORS_MAX];
    static struct vg_guest_node node[NODES_MAX];
    struct vg_guest_nodes nodes = {node, 0};
    size_t n = (size_t)(argc - 4);

    if (argc < 5 || n >= INHERITORS_MAX)
        return 2;
    for (char *path = strtok(argv[2], ","); path && nodes.n < NODES_MAX; path = strtok(NULL, ","))
        add_node(&nodes, path);
    pid_t owner = atoi(argv[3]);
    for (size_t i = 0; i < n; i++)
        inheritors[i].pid = atoi(argv[4 + i]);
    struct vg_guest_inheritors among = {.root = "",
                                        .nodes = &nodes,
                                        .owners = &owner,
                                        .n_owners = 1,
                                        .holders = holders,
                                        .n_holders = find_holders(&nodes, holders)};
    vg_guest_child_init();
    if (strcmp(argv[1], "do") == 0)
        vg_guest_inheritors_release(&among, inheritors, n, vg_guest_now_ms() + LIMIT_MS);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(argv[1], "look") == 0)
            vg_guest_inheritor_check(&among, &inheritors[i]);
        printf("%d %zu %zu %s\n", (int)inheritors[i].pid, inheritors[i].descriptors,
               inheritors[i].maps,
               inheritors[i].gone   ? "ended"
               : *inheritors[i].why ? inheritors[i].why
                                    : "ok");
    }
    return 0;
}
