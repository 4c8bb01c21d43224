/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/ends.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "opencl/proxy/admit.h"

static void
ends_add(struct proxy_ends *ends, const unsigned char *session, const char *why)
{
    struct proxy_end *end = &ends->of[ends->n++ % PROXY_ENDS_MAX];

    memcpy(end->session, session, sizeof end->session);
    snprintf(end->why, sizeof end->why, "%s", why);
}

/* Returns the signal that ended a process with STATUS, even if it is only encoded as an exit
 * status, as by the first process of a PID namespace. Returns 0 if there is none. */
static int
ends_signal(int status)
{
    if (WIFSIGNALED(status))
        return WTERMSIG(status);
    return WIFEXITED(status) && WEXITSTATUS(status) > 128 ? WEXITSTATUS(status) - 128 : 0;
}

void
vg_ends_take(struct proxy_ends *ends, struct proxy_groups *groups, struct proxy_client *client,
             int status, const struct rusage *used)
{
    const bool had_no_memory = vg_group_end(groups, &client->group);
    const unsigned mib = (unsigned)(groups->memory >> 20);
    const int signal = ends_signal(status);
    char why[VG_WIRE_REFUSAL_MAX];

    if (!signal)
        return;
    if (client->why_ended)
        snprintf(why, sizeof why, "%s", client->why_ended);
    else if (had_no_memory)
        snprintf(why, sizeof why, "it exceeded its limit of %u MiB of host memory", mib);
    else
        snprintf(why, sizeof why, "its process crashed (signal %d) while using %ld MiB of memory",
                 signal, used->ru_maxrss >> 10);
    ends_add(ends, client->session, why);
    vg_admit_say(client->tenant, "client process %d was terminated by signal %d: %s",
                 (int)client->pid, signal, why);
    vg_serve_note(&client->tenant->failed, "a program was terminated: %s", why);
}

const char *
vg_ends_find(const struct proxy_ends *ends, const unsigned char *session)
{
    const char *why = NULL;

    for (unsigned i = 0; i < PROXY_ENDS_MAX; i++) {
        unsigned char differs = 0;
        for (size_t at = 0; at < VG_WIRE_SESSION_ID; at++)
            differs |= (unsigned char)(ends->of[i].session[at] ^ session[at]);
        if (!differs && ends->of[i].why[0])
            why = ends->of[i].why;
    }
    return why;
}
