/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs instead of QEMU as the emulator of one VM whose guest uses Vulkan. It passes its arguments
 * to the QEMU of the same name, but allows it to start programs, unlike libvirt's sandbox.
 * virglrenderer forks a render server, which creates its own process group with setpgid(). This
 * requires spawn=allow and elevateprivileges=allow in QEMU's -sandbox option
 * (system/qemu-seccomp.c). The sandbox's other restrictions remain, also for the render server.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A shell's exit codes. */
#define EXIT_NOT_RUN   126
#define EXIT_NOT_FOUND 127

static const char *const spawn_allowed[] = {"spawn", "elevateprivileges"};

static const char *const spawn_directories[] = {"/usr/bin", "/usr/libexec"};

/* Appends an option, with "=allow" if it is allowed. */
static void
spawn_add(char *text, const char *option, size_t length)
{
    for (size_t i = 0; i < sizeof(spawn_allowed) / sizeof(spawn_allowed[0]); i++) {
        const size_t name = strlen(spawn_allowed[i]);
        if (length > name && option[name] == '=' && memcmp(option, spawn_allowed[i], name) == 0) {
            strcat(text, spawn_allowed[i]);
            strcat(text, "=allow");
            return;
        }
    }
    strncat(text, option, length);
}

/* Rewrites the options of -sandbox, which are separated by commas. */
static char *
spawn_loosen(const char *options)
{
    /* There is space for another value of each option. */
    char *text = calloc(2 * strlen(options) + 64, 1);

    if (!text)
        return NULL;
    for (const char *at = options; *at;) {
        const size_t length = strcspn(at, ",");
        spawn_add(text, at, length);
        at += length;
        if (*at == ',') {
            strcat(text, ",");
            at++;
        }
    }
    return text;
}

int
main(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "";
    char path[4096];

    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "-sandbox") != 0 && strcmp(argv[i], "--sandbox") != 0)
            continue;
        char *loose = spawn_loosen(argv[i + 1]);
        if (!loose) {
            fprintf(stderr, "vgpud-qemu-spawn: no memory for the arguments of %s\n", name);
            return EXIT_NOT_RUN;
        }
        argv[++i] = loose;
    }
    for (size_t i = 0; i < sizeof(spawn_directories) / sizeof(spawn_directories[0]); i++) {
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", spawn_directories[i], name) >=
            sizeof(path))
            break;
        execv(path, argv);
        if (errno != ENOENT) {
            fprintf(stderr, "vgpud-qemu-spawn: cannot start %s: %s\n", path, strerror(errno));
            return EXIT_NOT_RUN;
        }
    }
    fprintf(stderr, "vgpud-qemu-spawn: there is no %s in /usr/bin or /usr/libexec\n", name);
    return EXIT_NOT_FOUND;
}
