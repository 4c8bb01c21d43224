/* SPDX-License-Identifier: Apache-2.0
 *
 * Load for a server of HTTP/1.1 on a unix socket: N connections that are kept, each with one
 * request at a time, for some seconds. Every answer must be a 200 of the length that it says.
 *     http-load SOCKET PATH CONNECTIONS SECONDS
 * Prints the answers, the bytes of their bodies and the seconds that it took.
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

struct connection {
    size_t head_size; /* what there is of the head of the answer */
    bool in_body;
    int64_t left; /* bytes of the body that are still to come */
    char head[HEAD_MAX + 1];
};

static struct connection connections[CONNECTIONS_MAX];
static struct pollfd polls[CONNECTIONS_MAX];
static char request[512];
static uint64_t answers, bytes;

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

/* A request is smaller than any socket's buffer. */
static void
ask(struct connection *connection, int fd)
{
    connection->head_size = 0;
    connection->in_body = false;
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request))
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
        answers++;
        ask(connection, fd);
    }
}

int
main(int argc, char **argv)
{
    int n = argc == 5 ? atoi(argv[3]) : 0;

    if (n <= 0 || n > CONNECTIONS_MAX) {
        fprintf(stderr, "usage: http-load SOCKET PATH CONNECTIONS SECONDS\n");
        return 2;
    }
    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", argv[2]);
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
    printf("%llu answers %llu bytes %.3f s\n", (unsigned long long)answers,
           (unsigned long long)bytes, now - begin);
    return 0;
}
