/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/signals.h"

#include <signal.h>
#include <stddef.h>

void
vg_signals_block(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}
