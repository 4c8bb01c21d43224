/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/proxy/admit.h"

#define OUTPUT_LINE  400               /* bytes of a line; the rest becomes another line */
#define OUTPUT_PIECE 65536             /* bytes read at a time */
#define OUTPUT_PAUSE INT64_C(20000000) /* ns between two full pieces; the writer waits */

struct proxy_output {
    int fd;
    int64_t next; /* time of the next read */
    char line[OUTPUT_LINE + 1];
    size_t has;
};

struct proxy_output *
vg_output_new(int *fd)
{
    struct proxy_output *output = calloc(1, sizeof *output);
    int pair[2];

    if (!output || pipe2(pair, O_CLOEXEC) != 0) {
        free(output);
        return NULL;
    }
    output->fd = pair[0];
    *fd = pair[1];
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    return output;
}

void
vg_output_free(struct proxy_output *output)
{
    if (!output)
        return;
    if (output->fd >= 0)
        close(output->fd);
    free(output);
}

bool
vg_output_enter(int fd)
{
    /* Otherwise, the client's process would write to its own message file. */
    unsetenv("VGPU_OPENCL_LOG");
    return dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0;
}

int
vg_output_poll(const struct proxy_output *output, int64_t now, int *ms)
{
    if (!output || output->fd < 0)
        return -1;
    if (output->next <= now)
        return output->fd;
    const int left = (int)((output->next - now) / 1000000) + 1;
    *ms = *ms < 0 || *ms > left ? left : *ms;
    return -1;
}

static void
output_log(const struct proxy_client *client, struct proxy_output *output)
{
    struct proxy_tenant *tenant = client->tenant;

    output->line[output->has] = '\0';
    if (output->has > 0)
        vg_admit_say(tenant, "client %d of %s: %s", (int)client->pid,
                     tenant->vm ? tenant->vm : tenant->path, output->line);
    output->has = 0;
}

static void
output_take(const struct proxy_client *client, struct proxy_output *output, const char *bytes,
            size_t size)
{
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (c == '\n' || output->has == OUTPUT_LINE)
            output_log(client, output);
        if (c != '\n')
            output->line[output->has++] = c == '\t' ? ' ' : c < 0x20 || c >= 0x7f ? '?' : (char)c;
    }
}

void
vg_output_hear(const struct proxy_client *client, bool has_ended)
{
    struct proxy_output *output = client->output;
    char bytes[OUTPUT_PIECE];
    ssize_t n;

    if (!output || output->fd < 0)
        return;
    do {
        n = read(output->fd, bytes, sizeof bytes);
        if (n > 0)
            output_take(client, output, bytes, (size_t)n);
        /* A pipe does not hold more than that. */
    } while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof bytes)
        output->next = vg_cl_now() + OUTPUT_PAUSE;
    if (n == 0 || has_ended) {
        output_log(client, output);
        close(output->fd);
        output->fd = -1;
    }
}
