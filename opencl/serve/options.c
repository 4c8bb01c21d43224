/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiler options that name files on the proxy's machine: files that are read in addition to
 * directories of headers, written, loaded, or passed to another program. Programs on another
 * machine have no use for them. The process's confinement limits the directories of headers (-I).
 */
#include "config.h"

#include <string.h>

#include "opencl/serve/meter.h"
#include "opencl/serve/private.h"

#define OPTIONS_BLANK " \t\r\n\v\f"
#define OPTIONS_SHOWN 40 /* bytes of an option that matter and appear in a message */

/* Prefixes of refused options. Vendors with compilers based on clang have most of them. */
static const char *const options_refused[] = {
    /* read */
    "@",
    "--config",
    "--specs",
    "-imacros",
    "-include",
    "-ivfsoverlay",
    "-specs",
    /* written: AMD's and Intel's compilers have their own options */
    "--save-temps",
    "--serialize-diagnostics",
    "-M",
    "-dump",
    "-fcrash-diagnostics",
    "-fmodule",
    "-fprofile",
    "-ftime-trace",
    "-save-temps",
    "-serialize-diagnostics",
    /* loaded */
    "-fpass-plugin",
    "-fplugin",
    "-load",
    "-plugin",
    /* passed on: to clang's front end, LLVM, linkers, and to AMD's and Intel's back ends */
    "-Wa,",
    "-Wb,",
    "-Wf,",
    "-Wl,",
    "-Wp,",
    "-Xassembler",
    "-Xclang",
    "-Xlinker",
    "-Xpreprocessor",
    "-igc_opts",
    "-mllvm",
    "-wrapper",
};

static bool
options_is_refused(const char *option)
{
    for (size_t i = 0; i < sizeof options_refused / sizeof *options_refused; i++)
        if (strncmp(option, options_refused[i], strlen(options_refused[i])) == 0)
            return true;
    return strcmp(option, "-o") == 0;
}

/* Extracts the next option from *REST without quotes, which must not hide an option. Returns false
 * at the end. */
static bool
options_next(const char **rest, char option[OPTIONS_SHOWN])
{
    const char *at = *rest + strspn(*rest, OPTIONS_BLANK);
    size_t size = 0;

    if (!*at)
        return false;
    for (; *at && !strchr(OPTIONS_BLANK, *at); at++)
        if (!strchr("\"'\\", *at) && size < OPTIONS_SHOWN - 1)
            option[size++] = *at;
    option[size] = '\0';
    *rest = at;
    return true;
}

cl_int
vg_serve_check_options(struct vg_serve_call *call, const char *options, cl_int error)
{
    struct vg_serve_counts *counts = call->serve->limits.counts;
    const char *rest = options ? options : "";
    char option[OPTIONS_SHOWN];

    while (options_next(&rest, option)) {
        if (!options_is_refused(option))
            continue;
        if (counts)
            vg_serve_note(&counts->refused, "the compiler option '%s'", option);
        return error;
    }
    return CL_SUCCESS;
}
