/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <argp.h>

#include "cli/cli.h"

int
vg_cmd_version(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    static const struct argp argp = {.doc = "Prints the version."};

    argp_parse(&argp, argc, argv, 0, NULL, NULL);
    return vg_cli_print("vgpuctl " PACKAGE_VERSION "\n", &error) < 0 ? vg_cli_fail(error)
                                                                     : VG_EXIT_OK;
}
