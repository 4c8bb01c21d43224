/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/serve/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opencl/base/say.h"
#include "opencl/serve/private.h"

#define OUTPUT_PIECE 65536     /* bytes; the capacity of a pipe */
#define OUTPUT_MUCH  (1 << 18) /* bytes that are sent before a call waits for them */

struct vg_serve_output {
    int fd; /* read end of the pipe */
    pthread_mutex_t lock;
    struct vg_serve_text text; /* text that was not taken yet */
    size_t room;               /* its allocated size */
    pthread_cond_t is_much;
};

/* Called under the lock. */
static void
output_add(struct vg_serve_output *output, const void *bytes, size_t size)
{
    struct vg_serve_text *text = &output->text;

    if (text->size + size > output->room && output->room < VG_SERVE_OUTPUT_MAX) {
        const size_t room = output->room ? 2 * output->room : OUTPUT_PIECE;
        unsigned char *more = realloc(text->bytes, room);
        if (more) {
            text->bytes = more;
            output->room = room;
        }
    }
    const size_t left = output->room - text->size, n = size < left ? size : left;
    if (n > 0)
        memcpy(text->bytes + text->size, bytes, n);
    text->size += n;
    text->dropped += size - n;
    if (text->size >= OUTPUT_MUCH)
        pthread_cond_signal(&output->is_much);
}

/* Reads everything that the vendor's threads have written so far. Called under the lock. */
static void
output_read(struct vg_serve_output *output)
{
    unsigned char bytes[OUTPUT_PIECE];
    ssize_t n;

    do
        n = read(output->fd, bytes, sizeof bytes);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        output_add(output, bytes, (size_t)n);
}

static void *
output_run(void *data)
{
    struct vg_serve_output *output = data;
    struct pollfd at = {.fd = output->fd, .events = POLLIN};

    for (;;) {
        if (poll(&at, 1, -1) <= 0)
            continue;
        if (!(at.revents & POLLIN))
            return NULL; /* stdout is another file now */
        pthread_mutex_lock(&output->lock);
        output_read(output);
        pthread_mutex_unlock(&output->lock);
    }
    return NULL;
}

bool
vg_serve_output_take(struct vg_serve_output *output, struct vg_serve_text *text)
{
    if (!output)
        return false;
    pthread_mutex_lock(&output->lock);
    output_read(output);
    *text = output->text;
    output->text = (struct vg_serve_text){.bytes = NULL};
    output->room = 0;
    pthread_mutex_unlock(&output->lock);
    return text->size > 0 || text->dropped > 0;
}

void
vg_serve_output_await(struct vg_serve_output *output)
{
    pthread_mutex_lock(&output->lock);
    while (output->text.size < OUTPUT_MUCH)
        pthread_cond_wait(&output->is_much, &output->lock);
    pthread_mutex_unlock(&output->lock);
}

/* Makes stdout a pipe that a thread reads. Returns NULL if stdout stays unchanged. */
static struct vg_serve_output *
output_new(void)
{
    struct vg_serve_output *output = calloc(1, sizeof *output);
    int pair[2] = {-1, -1};
    pthread_t thread;

    if (!output || pipe2(pair, O_CLOEXEC) != 0 || fcntl(pair[0], F_SETFL, O_NONBLOCK) != 0)
        goto fail;
    output->fd = pair[0];
    pthread_mutex_init(&output->lock, NULL);
    pthread_cond_init(&output->is_much, NULL);
    if (pthread_create(&thread, NULL, output_run, output) != 0)
        goto fail;
    pthread_detach(thread);
    /* Vendors that print through stdio have done so when their command is complete. */
    setvbuf(stdout, NULL, _IONBF, 0);
    if (dup2(pair[1], STDOUT_FILENO) < 0)
        vg_cl_say("the output of a client's kernels cannot be sent to the client: %s",
                  strerror(errno));
    close(pair[1]);
    return output;
fail:
    vg_cl_say("the output of a client's kernels cannot be sent to the client: %s", strerror(errno));
    if (pair[0] >= 0)
        close(pair[0]);
    if (pair[1] >= 0)
        close(pair[1]);
    free(output);
    return NULL;
}

/* Returns whether OP creates a program whose kernels may print. */
static bool
output_may_print(const struct vg_serve_call *call)
{
    static const char word[] = "printf";

    switch (call->head.op) {
    case VG_WIRE_OP_CreateProgramWithSource:
        return call->body && memmem(call->body, call->head.size, word, sizeof word - 1);
    case VG_WIRE_OP_CreateProgramWithBinary:
    case VG_WIRE_OP_CreateProgramWithIL:
        return true;
    default:
        return false;
    }
}

void
vg_serve_output_allow(struct vg_serve *serve, bool takes_output)
{
    serve->takes_output = takes_output;
}

struct vg_serve_output *
vg_serve_output_begin(const struct vg_serve_call *call)
{
    struct vg_serve *serve = call->serve;

    /* Without turns, this is not a client's process. */
    if (serve->output || !serve->takes_output || serve->limits.turns < 0 || !output_may_print(call))
        return NULL;
    serve->takes_output = false;
    return output_new();
}
