/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds the threads of a process that fault, or commands who does: hold-one ROOT PID WHAT, where
 * WHAT is "start", which prints "ready" or why not, "locked", "repeat" or "end". ROOT has proc and
 * run, as for vgpu-guestd.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/child.h"
#include "guest/hold.h"
#include "guest/process.h"
#include "guest/util.h"

enum { LIMIT_MS = 60000 };

static int
begin(const char *root, pid_t pid, uint64_t start)
{
    static const char *const outcomes[] = {
        [VG_GUEST_HOLD_READY] = "ready",           [VG_GUEST_HOLD_NOTED] = "noted",
        [VG_GUEST_HOLD_TRACED] = "traced",         [VG_GUEST_HOLD_PARTLY] = "partly",
        [VG_GUEST_HOLD_IMPOSSIBLE] = "impossible", [VG_GUEST_HOLD_GONE] = "gone"};
    struct vg_guest_hold_link link;

    vg_guest_hold_start(root, pid, start, &link);
    vg_guest_hold_wait(&link, 1, vg_guest_now_ms() + LIMIT_MS);
    printf("%s %s\n", outcomes[link.report.outcome], link.report.why);
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *word;
        int number;
    } commands[] = {{"locked", VG_GUEST_HOLD_LOCKED},
                    {"repeat", VG_GUEST_HOLD_REPEAT},
                    {"end", VG_GUEST_HOLD_END}};
    struct vg_guest_process is;

    if (argc < 4)
        return 2;
    pid_t pid = atoi(argv[2]);
    vg_guest_child_init();
    if (vg_guest_process_read(argv[1], pid, &is) != 0)
        return 1;
    if (strcmp(argv[3], "start") == 0)
        return begin(argv[1], pid, is.start);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[3], commands[i].word) == 0 &&
            vg_guest_hold_signal(argv[1], pid, is.start, commands[i].number) != 0)
            return 1;
    }
    while (strcmp(argv[3], "end") == 0 && vg_guest_hold_wait_for_end(argv[1], pid, is.start) != 0)
        continue;
    return 0;
}
