/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands before QEMU as the emulator of one VM whose guest uses Vulkan: hands its arguments on to
 * the QEMU of the same name, and lets it start programs, as libvirt's sandbox does not.
 *
 * virglrenderer forks a render server, which makes itself a group of processes by setpgid(): that
 * takes spawn=allow and elevateprivileges=allow of QEMU's -sandbox (system/qemu-seccomp.c). What
 * else the sandbox forbids it still does, to the render server, too.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The exit codes of a shell. */
#define EXIT_NOT_RUN   126
#define EXIT_NOT_FOUND 127

static const char *const spawn_allowed[] = {"spawn", "elevateprivileges"};

static const char *const spawn_directories[] = {"/usr/bin", "/usr/libexec"};

/* Appends an option, with "=allow" where that is allowed. */
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

/* Rewrites the options of -sandbox, which have commas between them. */
static char *
spawn_loosen(const char *options)
{
    /* Each option has room for another value. */
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
