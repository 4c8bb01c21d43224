/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/remote-args.h"

#include <glib.h>

#include "cli/cli.h"
#include "client/remote-address.h"
#include "client/remote.h"

/* The keys of the settings follow this one, in the order of the settings. */
enum { KEY_CONTEXT = 0x900, KEY_REQUEST_TIMEOUT, KEY_FIRST };

#define LIMIT_MIN_S 0.1
#define LIMIT_MAX_S 3600.0

static const struct argp_option options[] = {
    {"socket", KEY_FIRST + VG_REMOTE_SOCKET, "PATH", 0,
     "vgpud's unix socket on this machine (default: " VG_REMOTE_DEFAULT_SOCKET ")", 1},
    {"server", KEY_FIRST + VG_REMOTE_SERVER, "URL", 0,
     "vgpud's address on the network, https://HOST:PORT", 1},
    {"token-file", KEY_FIRST + VG_REMOTE_TOKEN_FILE, "FILE", 0,
     "file with the token that identifies you; see `vgpuctl token`", 1},
    {"cacert", KEY_FIRST + VG_REMOTE_CACERT, "FILE", 0,
     "CA certificates to verify vgpud's certificate with (default: this machine's)", 1},
    {"cert", KEY_FIRST + VG_REMOTE_CERT, "FILE", 0, "client certificate that identifies you", 1},
    {"key", KEY_FIRST + VG_REMOTE_KEY, "FILE", 0,
     "the certificate's private key, if it is in "
     "another file",
     1},
    {"context", KEY_CONTEXT, "NAME", 0, "use a saved set of these options; see `vgpuctl context`",
     1},
    {"request-timeout", KEY_REQUEST_TIMEOUT, "SECONDS", 0,
     "seconds to wait for an answer (default: 60)", 1},
    {0},
};

static void
remote_args_check(const struct vg_remote_args *args, const struct argp_state *state)
{
    const char *server = args->values[VG_REMOTE_SERVER];
    g_autoptr(GError) error = NULL;

    if (!!args->values[VG_REMOTE_SOCKET] + !!server + !!args->context > 1)
        argp_error(state, "use only one of --socket, --server and --context");
    if (server && vg_remote_check_server(server, &error) < 0)
        vg_cli_usage(state, "--server: %s", error->message);
    if (args->values[VG_REMOTE_KEY] && !args->values[VG_REMOTE_CERT])
        argp_error(state, "--key needs --cert with the certificate");
    for (int i = VG_REMOTE_TOKEN_FILE; i < VG_REMOTE_MAX && args->values[VG_REMOTE_SOCKET]; i++) {
        if (args->values[i])
            argp_error(state,
                       "--%s does not apply to a unix socket, where the kernel identifies you",
                       vg_remote_names[i].option);
    }
}

static double
remote_args_seconds(const char *text, const struct argp_state *state)
{
    char *end;
    const double seconds = g_ascii_strtod(text, &end);

    if (end == text || *end || !(seconds >= LIMIT_MIN_S && seconds <= LIMIT_MAX_S))
        vg_cli_usage(state, "--request-timeout must be from %g to %g seconds, not '%s'",
                     LIMIT_MIN_S, LIMIT_MAX_S, text);
    return seconds;
}

static error_t
remote_args_parse(int key, char *arg, struct argp_state *state)
{
    struct vg_remote_args *args = state->input;

    if (key == KEY_CONTEXT)
        args->context = arg;
    else if (key == KEY_REQUEST_TIMEOUT)
        args->limit_s = remote_args_seconds(arg, state);
    else if (key >= KEY_FIRST && key < KEY_FIRST + VG_REMOTE_MAX)
        args->values[key - KEY_FIRST] = arg;
    else if (key == ARGP_KEY_END)
        remote_args_check(args, state);
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

const struct argp vg_remote_argp = {.options = options, .parser = remote_args_parse};
