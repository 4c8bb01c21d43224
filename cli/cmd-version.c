/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <argp.h>
#include <stdio.h>

#include "cli/cli.h"

int
vg_cmd_version(int argc, char **argv)
{
    static const struct argp argp = {.doc = "Prints the version."};

    argp_parse(&argp, argc, argv, 0, NULL, NULL);
    printf("vgpuctl %s\n", PACKAGE_VERSION);
    return VG_EXIT_OK;
}
