/* SPDX-License-Identifier: Apache-2.0
 *
 * Load for a server of HTTP/1.1 on a unix socket: N connections that are kept, each with one
 * request at a time, for some seconds. Every answer must be a 200 of the length that it says.
 *     http-load SOCKET PATH CONNECTIONS SECONDS [FILE]
 * With a FILE of JSON that is posted. Prints the answers, the bytes of their bodies, the seconds
 * that it took, and how long half of the answers, and all but one of a hundred, took at most.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 1024
#define HEAD_MAX        4096
#define BLOCK           65536
#define BODY_MAX        (1 << 20)

struct connection {
    size_t head_size; /* what there is of the head of the answer */
    bool in_body;
    int64_t left; /* bytes of the body that are still to come */
    double asked; /* when */
    char head[HEAD_MAX + 1];
};

static struct connection connections[CONNECTIONS_MAX];
static struct pollfd polls[CONNECTIONS_MAX];
static char request[BODY_MAX + 512];
static size_t request_size;
static uint64_t answers, bytes;
static double *times; /* of each answer, seconds */

static void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

static void
fail(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fputs("http-load: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static double
now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int
open_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (strlen(path) >= sizeof(address.sun_path))
        fail("the path of the socket is too long");
    memcpy(address.sun_path, path, strlen(path));
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        fail("%s: %s", path, strerror(errno));
    return fd;
}

static void
ask(struct connection *connection, int fd)
{
    connection->head_size = 0;
    connection->in_body = false;
    connection->asked = now_s();
    if (send(fd, request, request_size, MSG_NOSIGNAL) != (ssize_t)request_size)
        fail("send: %s", strerror(errno));
}

static void
take_head(struct connection *connection, const char *data, size_t size)
{
    size_t room = HEAD_MAX - connection->head_size;
    size_t before = connection->head_size;
    const char *length;

    memcpy(connection->head + before, data, size < room ? size : room);
    connection->head_size += size < room ? size : room;
    connection->head[connection->head_size] = '\0';
    const char *end = strstr(connection->head, "\r\n\r\n");
    if (!end) {
        if (room == 0)
            fail("the head of an answer is longer than %d bytes", HEAD_MAX);
        return;
    }
    if (strncmp(connection->head, "HTTP/1.1 200 ", 13) != 0)
        fail("%.*s", (int)strcspn(connection->head, "\r"), connection->head);
    length = strcasestr(connection->head, "\r\nContent-Length: ");
    if (!length || length > end)
        fail("an answer without Content-Length");
    connection->in_body = true;
    connection->left = strtoll(length + 18, NULL, 10);
    bytes += (uint64_t)connection->left;
    connection->left -= (int64_t)(size - ((size_t)(end + 4 - connection->head) - before));
}

static void
note(double seconds)
{
    /* Twice as much room at each power of two. */
    if ((answers & (answers + 1)) == 0)
        times = realloc(times, 2 * (answers + 1) * sizeof(*times));
    if (!times)
        fail("no memory");
    times[answers++] = seconds;
}

static int
compare_times(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void
make_request(const char *path, const char *file)
{
    static char body[BODY_MAX];
    FILE *from = file ? fopen(file, "re") : NULL;
    size_t size = from ? fread(body, 1, sizeof(body), from) : 0;

    if (file && (!from || size == 0 || size == sizeof(body)))
        fail("%s: it cannot be read, is empty, or has more than %d bytes", file, BODY_MAX);
    if (from)
        fclose(from);
    request_size = (size_t)snprintf(request, 512, "%s %s HTTP/1.1\r\nHost: localhost\r\n",
                                    file ? "POST" : "GET", path);
    if (file)
        request_size += (size_t)snprintf(request + request_size, 512 - request_size,
                                         "Content-Type: application/json\r\n"
                                         "Content-Length: %zu\r\n",
                                         size);
    request_size += (size_t)snprintf(request + request_size, 512 - request_size, "\r\n");
    memcpy(request + request_size, body, size);
    request_size += size;
}

static void
take(struct connection *connection, int fd)
{
    static char data[BLOCK];
    ssize_t n = recv(fd, data, sizeof(data), 0);

    if (n <= 0)
        fail("recv: %s", n == 0 ? "the connection was closed" : strerror(errno));
    if (connection->in_body)
        connection->left -= n;
    else
        take_head(connection, data, (size_t)n);
    if (connection->in_body && connection->left < 0)
        fail("an answer is longer than it says");
    if (connection->in_body && connection->left == 0) {
        note(now_s() - connection->asked);
        ask(connection, fd);
    }
}

int
main(int argc, char **argv)
{
    int n = argc == 5 || argc == 6 ? atoi(argv[3]) : 0;

    if (n <= 0 || n > CONNECTIONS_MAX) {
        fprintf(stderr, "usage: http-load SOCKET PATH CONNECTIONS SECONDS [FILE]\n");
        return 2;
    }
    if (strlen(argv[2]) > 256)
        fail("the path is too long");
    make_request(argv[2], argc == 6 ? argv[5] : NULL);
    double begin = now_s(), end = begin + atof(argv[4]);
    for (int i = 0; i < n; i++) {
        polls[i] = (struct pollfd){.fd = open_socket(argv[1]), .events = POLLIN};
        ask(&connections[i], polls[i].fd);
    }
    double now;
    for (now = begin; now < end; now = now_s()) {
        if (poll(polls, (nfds_t)n, 1000) <= 0)
            fail("nobody has answered for a second");
        for (int i = 0; i < n; i++) {
            if (polls[i].revents)
                take(&connections[i], polls[i].fd);
        }
    }
    if (answers == 0)
        fail("there was no answer");
    qsort(times, answers, sizeof(*times), compare_times);
    printf("%llu answers %llu bytes %.3f s, half in %.3f ms, 99 %% in %.3f ms\n",
           (unsigned long long)answers, (unsigned long long)bytes, now - begin,
           times[answers / 2] * 1e3, times[answers - answers / 100 - 1] * 1e3);
    free(times);
    return 0;
}
