/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that forks. The child has the same connection and shares the same memory with the
 * proxy, but has a copy of the state of both: a call there would break the program's OpenCL. Calls
 * of the child with the program's objects therefore fail and leave everything unchanged. A call
 * with a platform or device creates a separate link for the child.
 */
#include "config.h"

#include <pthread.h>

#include "opencl/base/say.h"
#include "opencl/client/private.h"

static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static struct vg_wire_client *fork_all; /* clients of the program */

static void
fork_before(void)
{
    pthread_mutex_lock(&fork_lock);
}

static void
fork_in_parent(void)
{
    pthread_mutex_unlock(&fork_lock);
}

/* Other threads do not exist in the child, whatever locks they held. */
static void
fork_in_child(void)
{
    for (struct vg_wire_client *client = fork_all; client; client = client->next_of_all) {
        pthread_mutex_init(&client->sending, NULL);
        pthread_mutex_init(&client->lock, NULL);
        client->is_broken = client->is_inherited = true;
        client->has_helper = false;
        client->n_batch = 0;
        vg_wire_copier_is_forked(&client->copier);
        vg_wire_link_inherit(&client->link);
    }
    pthread_mutex_init(&fork_lock, NULL);
}

static void
fork_begin(void)
{
    pthread_atfork(fork_before, fork_in_parent, fork_in_child);
}

void
vg_wire_fork_list(struct vg_wire_client *client)
{
    pthread_once(&fork_once, fork_begin);
    pthread_mutex_lock(&fork_lock);
    client->next_of_all = fork_all;
    fork_all = client;
    pthread_mutex_unlock(&fork_lock);
}

void
vg_wire_fork_unlist(const struct vg_wire_client *client)
{
    pthread_mutex_lock(&fork_lock);
    for (struct vg_wire_client **link = &fork_all; *link; link = &(*link)->next_of_all)
        if (*link == client) {
            *link = client->next_of_all;
            break;
        }
    pthread_mutex_unlock(&fork_lock);
}

void (*vg_wire_on_inherited)(struct vg_wire_object *root);

struct vg_wire_object *
vg_wire_fork_renew(struct vg_wire_object *root)
{
    if (root->type != VG_CL_PLATFORM && root->type != VG_CL_DEVICE)
        return root;
    if (!root->renewed && vg_wire_on_inherited)
        vg_wire_on_inherited(root);
    return root->renewed ? root->renewed : root;
}

void
vg_wire_fork_say(struct vg_wire_client *client)
{
    if (client->is_inherited && !client->has_said)
        vg_cl_say("this process was forked from a program that used OpenCL through a proxy or was "
                  "stopped at the time; inherited OpenCL objects do not work here, but new "
                  "contexts do");
    client->has_said = true;
}
