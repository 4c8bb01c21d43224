/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "opencl/proxy/sockets.h"
#include "opencl/wire/link-shared.h"

static const char options_usage[] =
    "Usage: vgpu-proxy [OPTION]... SOCKET[,weight=NUMBER][,clients=NUMBER][,memory=MIB]\n"
    "       [,vm-memory=MIB][,vm=NAME][,token=FILE][,cid=NUMBER]...\n"
    "Gives programs access to this machine's OpenCL devices through unix sockets,\n"
    "tcp:HOST:PORT, tls:HOST:PORT or vsock:PORT.\n"
    "\n"
    "  --allow-binaries   accept programs that were compiled elsewhere\n"
    "  --ask=SOCKET       control socket, for queries and changes of weights\n"
    "  --ask-mode=OCTAL   permissions of the control socket (0600)\n"
    "  --binary-key=FILE  key that signs the program binaries of this proxy; created if\n"
    "                     missing (a new one at each start)\n"
    "  --clients=NUMBER   maximum number of concurrent clients of all sockets (64)\n"
    "  --build=SECONDS    time limit for the build of a program (600; 0 for none)\n"
    "  --build-cpu=SECONDS  CPU time limit of a client's process during a build (1200; 0 for "
    "none)\n"
    "  --depth=NUMBER     maximum number of commands that wait for a user event (65536)\n"
    "  --drain=SECONDS    after SIGTERM, time to wait for clients to disconnect (30)\n"
    "  --groups           give each client its own control group below the proxy's\n"
    "  --host-memory=MIB  host memory for each client (8192; 0 for no limit)\n"
    "  --linger=SECONDS   time to wait for a client whose TCP or vsock link is broken (60; 0 for "
    "none)\n"
    "  --max-kernel=SECONDS  time limit for a command while others wait (30; 0 for no limit)\n"
    "  --memory=MIB       device memory for each client (all)\n"
    "  --mode=OCTAL       permissions of the sockets (0600)\n"
    "  --objects=NUMBER   maximum number of objects of each client (65536)\n"
    "  --pending=MIB      maximum data of each client's unfinished commands (4096)\n"
    "  --pinned=MIB       part of each client's --staging that is pinned (16; 0 for none)\n"
    "  --sockets=FOLDER   NAME.conf files with more sockets, one per line; reread on SIGHUP\n"
    "  --staging=MIB      memory shared with each client, for data (64; 0 for none)\n"
    "  --strict           kill a client's process that makes a forbidden system call\n"
    "  --trace            trace commands with LTTng, through vgpu-proxy-trace\n"
    "  --unconfined       do not confine clients' processes\n"
    "  --user=NAME        user of the clients' processes (the proxy's own)\n"
    "  --tls-certificate=FILE  certificate for tls:HOST:PORT, with its chain\n"
    "  --tls-key=FILE     key of this certificate\n"
    "  --tls-client-ca=FILE  CAs of the client certificates that identify VMs\n"
    "  --vendors=FOLDER   folder of the vendors' .icd files (/etc/OpenCL/vendors)\n"
    "  --warm             keep the vendors' libraries loaded, so that clients start faster\n"
    "  -h, --help         show this help\n"
    "  -V, --version      show the version\n";

static const struct {
    unsigned most, usual;
    int base;
} options_numbers[PROXY_NUMBERS] = {
    [PROXY_ASK_MODE] = {0777, 0600, 8},
    [PROXY_BUILD] = {86400, 600, 10},
    [PROXY_BUILD_CPU] = {86400, 1200, 10},
    [PROXY_CLIENTS] = {4096, 64, 10},
    [PROXY_DEPTH] = {UINT_MAX, 65536, 10},
    [PROXY_DRAIN] = {86400, 30, 10},
    [PROXY_HOST_MEMORY] = {UINT_MAX, 8192, 10},
    [PROXY_LINGER] = {86400, 60, 10},
    [PROXY_MAX_KERNEL] = {86400, 30, 10},
    [PROXY_MEMORY] = {UINT_MAX, 0, 10},
    [PROXY_MODE] = {0777, 0600, 8},
    [PROXY_OBJECTS] = {UINT_MAX, 65536, 10},
    [PROXY_PENDING] = {UINT_MAX, 4096, 10},
    [PROXY_PINNED] = {VG_WIRE_STAGING_MAX >> 20, 16, 10},
    [PROXY_STAGING] = {VG_WIRE_STAGING_MAX >> 20, 64, 10},
};

static bool
options_number(const char *text, int base, unsigned most, unsigned *number)
{
    char *end;

    errno = 0;
    unsigned long value = strtoul(text, &end, base);
    if (errno || end == text || *end || *text == '-' || value > most) {
        fprintf(stderr, "vgpu-proxy: '%s' is not a number up to %u\n", text, most);
        return false;
    }
    *number = (unsigned)value;
    return true;
}

/* Checks that related options are given together. */
static bool
options_check_tls(const struct vg_wire_tls_files *tls)
{
    if (!tls->certificate == !tls->key && (tls->certificate || !tls->ca))
        return true;
    fputs("vgpu-proxy: --tls-certificate needs --tls-key and vice versa; --tls-client-ca needs "
          "both\n",
          stderr);
    return false;
}

static const struct option options_known[] = {
    {"ask-mode", required_argument, NULL, PROXY_ASK_MODE},
    {"build", required_argument, NULL, PROXY_BUILD},
    {"build-cpu", required_argument, NULL, PROXY_BUILD_CPU},
    {"clients", required_argument, NULL, PROXY_CLIENTS},
    {"depth", required_argument, NULL, PROXY_DEPTH},
    {"drain", required_argument, NULL, PROXY_DRAIN},
    {"host-memory", required_argument, NULL, PROXY_HOST_MEMORY},
    {"linger", required_argument, NULL, PROXY_LINGER},
    {"max-kernel", required_argument, NULL, PROXY_MAX_KERNEL},
    {"memory", required_argument, NULL, PROXY_MEMORY},
    {"mode", required_argument, NULL, PROXY_MODE},
    {"objects", required_argument, NULL, PROXY_OBJECTS},
    {"pending", required_argument, NULL, PROXY_PENDING},
    {"pinned", required_argument, NULL, PROXY_PINNED},
    {"staging", required_argument, NULL, PROXY_STAGING},
    {"allow-binaries", no_argument, NULL, 'b'},
    {"ask", required_argument, NULL, 'a'},
    {"binary-key", required_argument, NULL, 'B'},
    {"groups", no_argument, NULL, 'g'},
    {"sockets", required_argument, NULL, 'f'},
    {"strict", no_argument, NULL, 's'},
    {"trace", no_argument, NULL, 't'},
    {"unconfined", no_argument, NULL, 'U'},
    {"user", required_argument, NULL, 'u'},
    {"tls-certificate", required_argument, NULL, 'c'},
    {"tls-client-ca", required_argument, NULL, 'C'},
    {"tls-key", required_argument, NULL, 'k'},
    {"vendors", required_argument, NULL, 'v'},
    {"warm", no_argument, NULL, 'w'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

/* Handles an option without a number. C is the result of getopt_long(), and VALUE its argument. */
static void
options_take(struct proxy_options *options, int c, char *value)
{
    switch (c) {
    case 'a':
        options->ask = value;
        break;
    case 'b':
        options->is_with_binaries = true;
        break;
    case 'B':
        options->binary_key = value;
        break;
    case 'c':
        options->tls.certificate = value;
        break;
    case 'C':
        options->tls.ca = value;
        break;
    case 'f':
        options->sockets = value;
        break;
    case 'g':
        options->is_grouped = true;
        break;
    case 'k':
        options->tls.key = value;
        break;
    case 's':
        options->is_strict = true;
        break;
    case 't':
        options->is_traced = true;
        break;
    case 'U':
        options->is_unconfined = true;
        break;
    case 'u':
        options->user = value;
        break;
    case 'v':
        options->vendors = value;
        break;
    case 'w':
        options->is_warm = true;
        break;
    }
}

int
vg_options_read(struct proxy_options *options, int argc, char **argv)
{
    bool ok = true;
    int c;

    *options = (struct proxy_options){.vendors = "/etc/OpenCL/vendors"};
    for (c = 0; c < PROXY_NUMBERS; c++)
        options->numbers[c] = options_numbers[c].usual;
    while (ok && (c = getopt_long(argc, argv, "hV", options_known, NULL)) != -1) {
        if (c == 'h') {
            fputs(options_usage, stdout);
            return EXIT_SUCCESS;
        } else if (c == 'V') {
            puts("vgpu-proxy " PACKAGE_VERSION);
            return EXIT_SUCCESS;
        } else if (c == '?') {
            return 2;
        } else if (c < PROXY_NUMBERS) {
            ok = options_number(optarg, options_numbers[c].base, options_numbers[c].most,
                                &options->numbers[c]);
        } else {
            options_take(options, c, optarg);
        }
    }
    options->n_paths = argc - optind;
    options->paths = argv + optind;
    bool is_wrong =
        (options->n_paths == 0 && !options->sockets) || options->n_paths > PROXY_TENANTS_MAX;
    if (ok && is_wrong)
        fputs(options_usage, stderr);
    return ok && !is_wrong && options_check_tls(&options->tls) ? -1 : 2;
}
