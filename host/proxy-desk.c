/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/proxy-desk.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"

#define ANSWER_MAX (16 << 20) /* bytes */
#define LIST       "list"

struct vg_proxy_desk {
    int fd;
    char *path;
    int64_t limit_ns;
};

static int
desk_connect(int fd, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    return connect(fd, (struct sockaddr *)&address, sizeof(address));
}

vg_proxy_desk *
vg_proxy_desk_open(const char *path, int64_t limit_ns, GError **err)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || desk_connect(fd, path) != 0) {
        bool is_gone = errno == ENOENT || errno == ECONNREFUSED;
        vg_error(err, is_gone ? VG_E_NOT_FOUND : VG_E_IO, "%s: %s", path, g_strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    vg_proxy_desk *desk = g_new0(vg_proxy_desk, 1);
    desk->fd = fd;
    desk->path = g_strdup(path);
    desk->limit_ns = limit_ns;
    return desk;
}

void
vg_proxy_desk_close(vg_proxy_desk *desk)
{
    if (!desk)
        return;
    close(desk->fd);
    g_free(desk->path);
    g_free(desk);
}

/* Receives an answer. Returns the descriptor of its file, -2 if it has none, or -1. */
static int
desk_receive(const vg_proxy_desk *desk, char *text, size_t size, GError **err)
{
    struct iovec part = {text, size - 1};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } room;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room.bytes,
                             .msg_controllen = sizeof(room.bytes)};
    ssize_t n = recvmsg(desk->fd, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    int fd = -2;

    if (n <= 0)
        return vg_error(err, VG_E_IO, "%s: %s", desk->path,
                        n < 0 ? g_strerror(errno) : "it closed the connection");
    text[n] = '\0';
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(fd)))
        memcpy(&fd, CMSG_DATA(head), sizeof(fd));
    return fd;
}

static int
desk_send(const vg_proxy_desk *desk, const char *line, GError **err)
{
    if (send(desk->fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return vg_error(err, VG_E_IO, "%s: %s", desk->path, g_strerror(errno));
    return 0;
}

/* Sends a line, and receives the answer, as desk_receive() does. */
static int
desk_ask(const vg_proxy_desk *desk, const char *line, char *text, size_t size, GError **err)
{
    struct pollfd answer = {.fd = desk->fd, .events = POLLIN};

    if (desk_send(desk, line, err) < 0)
        return -1;
    if (vg_clock_poll(&answer, 1, vg_clock_monotonic_ns() + desk->limit_ns) <= 0)
        return vg_error(err, VG_E_TIMEOUT, "%s: it does not answer", desk->path);
    return desk_receive(desk, text, size, err);
}

/* Reads the file of an answer, and closes it. */
static json_object *
desk_read_file(const vg_proxy_desk *desk, int fd, GError **err)
{
    struct stat status;
    json_object *object = NULL;

    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > ANSWER_MAX) {
        vg_error(err, VG_E_EXTERNAL, "%s: its answer is not a file", desk->path);
    } else {
        g_autofree char *text = g_malloc0((size_t)status.st_size + 1);
        ssize_t n = pread(fd, text, (size_t)status.st_size, 0);
        object = vg_json_parse(text, n > 0 ? (size_t)n : 0, ANSWER_MAX, 6, err);
    }
    close(fd);
    return object;
}

/* Returns whether an answer of an older proxy, which has no codes, means VG_E_NOT_FOUND. */
static bool
desk_is_not_found_of_old(const char *answer)
{
    return strstr(answer, "no such socket") != NULL;
}

/* Reads "error CODE: REASON". Returns the code of the error, which is `otherwise` unless the proxy
 * lacks what is named, and sets *ret_why to the reason. */
static int
desk_read_error(const char *line, int otherwise, const char **ret_why)
{
    static const char word[] = "error ", not_found[] = "not-found";
    const char *code = line + (g_str_has_prefix(line, word) ? strlen(word) : 0);
    const size_t length = strspn(code, "abcdefghijklmnopqrstuvwxyz-");

    *ret_why = code;
    if (length == 0 || !g_str_has_prefix(code + length, ": "))
        return desk_is_not_found_of_old(line) ? VG_E_NOT_FOUND : otherwise;
    *ret_why = code + length + strlen(": ");
    return length == strlen(not_found) && strncmp(code, not_found, length) == 0 ? VG_E_NOT_FOUND
                                                                                : otherwise;
}

/* Returns what the file of an answer holds, which was received as desk_receive() says; NULL: there
 * is none, or it cannot be read. */
static json_object *
desk_take_file(const vg_proxy_desk *desk, int fd, const char *text, int64_t *pid, GError **err)
{
    if (fd == -2 && g_str_has_prefix(text, "error ")) {
        const char *why;
        const int code = desk_read_error(text, VG_E_EXTERNAL, &why);
        vg_error(err, code, "%s: %s", desk->path, why);
    } else if (fd == -2) {
        vg_error(err, VG_E_EXTERNAL, "%s: it answers without a file", desk->path);
    }
    if (fd < 0)
        return NULL;
    g_autoptr(json_object) object = desk_read_file(desk, fd, err);
    struct vg_json_node root = vg_json_root(object), number;
    if (!object || vg_json_member(&root, "pid", VG_JSON_REQUIRED, &number, err) < 0 ||
        vg_json_int64(&number, 1, INT32_MAX, pid, err) < 0)
        return NULL;
    return g_steal_pointer(&object);
}

/* Asks by a line that is answered by a file. Returns what it holds; NULL: it cannot, or will not.
 */
static json_object *
desk_ask_file(const vg_proxy_desk *desk, const char *line, int64_t *pid, GError **err)
{
    char text[256] = "";
    const int fd = desk_ask(desk, line, text, sizeof(text), err);

    return desk_take_file(desk, fd, text, pid, err);
}

struct vg_proxy_shown *
vg_proxy_desk_show(vg_proxy_desk *desk, const char *socket, GError **err)
{
    g_autofree char *line = g_strconcat("show ", socket, NULL);
    int64_t pid;
    g_autoptr(json_object) object = desk_ask_file(desk, line, &pid, err);
    struct vg_json_node root = vg_json_root(object);
    struct vg_proxy_shown *shown =
        object ? vg_record_read(&vg_proxy_shown_record, &root, err) : NULL;

    struct vg_proxy_told *told = shown ? vg_record_read(&vg_proxy_told_record, &root, err) : NULL;
    if (told) {
        vg_proxy_socket_complete(&shown->socket, told, desk->path);
        vg_record_free(&vg_proxy_told_record, told);
        return shown;
    }
    if (shown)
        vg_record_free(&vg_proxy_shown_record, shown);
    return NULL;
}

static void *
desk_copy_socket(const void *socket, void *data)
{
    (void)data;
    return vg_record_copy(&vg_proxy_socket_record, socket);
}

static GPtrArray *
desk_read_list(const vg_proxy_desk *desk, json_object *object, GError **err)
{
    struct vg_json_node root = vg_json_root(object), sockets;
    struct vg_proxy_told *told = NULL;

    if (object && vg_json_member(&root, "sockets", VG_JSON_REQUIRED, &sockets, err) >= 0)
        told = vg_record_read(&vg_proxy_told_record, &root, err);
    if (!told)
        return NULL;
    for (guint i = 0; i < told->sockets->len; i++)
        vg_proxy_socket_complete(told->sockets->pdata[i], told, desk->path);
    g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(vg_proxy_socket_free);
    g_ptr_array_extend(list, told->sockets, desk_copy_socket, NULL);
    vg_record_free(&vg_proxy_told_record, told);
    return g_steal_pointer(&list);
}

GPtrArray *
vg_proxy_desk_list(vg_proxy_desk *desk, GError **err)
{
    int64_t pid;
    g_autoptr(json_object) object = desk_ask_file(desk, LIST, &pid, err);

    return desk_read_list(desk, object, err);
}

int
vg_proxy_desk_ask_list(vg_proxy_desk *desk, GError **err)
{
    return desk_send(desk, LIST, err);
}

GPtrArray *
vg_proxy_desk_take_list(vg_proxy_desk *desk, GError **err)
{
    struct pollfd answer = {.fd = desk->fd, .events = POLLIN};
    char text[256] = "";
    int64_t pid;

    if (poll(&answer, 1, 0) <= 0)
        return NULL;
    const int fd = desk_receive(desk, text, sizeof(text), err);
    g_autoptr(json_object) object = desk_take_file(desk, fd, text, &pid, err);
    return desk_read_list(desk, object, err);
}

int
vg_proxy_desk_fd(const vg_proxy_desk *desk)
{
    return desk->fd;
}

/* Asks by a line that is answered by a line. Returns 0 after "ok", and else -1, with the answer in
 * TEXT, which is empty where there is none and *err is set. */
static int
desk_ask_line(vg_proxy_desk *desk, const char *line, char *text, size_t size, GError **err)
{
    text[0] = '\0';
    int fd = desk_ask(desk, line, text, size, err);

    if (fd >= 0)
        close(fd);
    if (fd == -1)
        text[0] = '\0';
    return fd != -1 && strcmp(text, "ok") == 0 ? 0 : -1;
}

/* Sets the error of an answer that is neither "ok" nor empty: the code of "refused REASON" is
 * `refused`, and that of any other answer as desk_read_error() says. */
static int
desk_fail(const vg_proxy_desk *desk, const char *text, int refused, int otherwise, GError **err)
{
    static const char word[] = "refused ";
    const char *why;

    if (g_str_has_prefix(text, word))
        return vg_error(err, refused, "%s: %s", desk->path, text + strlen(word));
    const int code = desk_read_error(text, otherwise, &why);
    return vg_error(err, code, "%s: %s", desk->path, why);
}

int
vg_proxy_desk_set_weight(vg_proxy_desk *desk, const char *socket, int64_t weight, GError **err)
{
    g_autofree char *line = g_strdup_printf("weight %" G_GINT64_FORMAT " %s", weight, socket);
    char text[256];

    if (desk_ask_line(desk, line, text, sizeof(text), err) == 0)
        return 0;
    return text[0] ? desk_fail(desk, text, VG_E_NOT_FOUND, VG_E_NOT_FOUND, err) : -1;
}

int
vg_proxy_desk_reserve(vg_proxy_desk *desk, const char *socket, const struct vg_proxy_room *room,
                      GError **err)
{
    const int64_t mib = (room->memory_bytes >> 20) + ((room->memory_bytes & 0xfffff) != 0);
    g_autofree char *line =
        g_strdup_printf("reserve %s %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %s", room->id,
                        room->seconds, MAX(mib, 1), socket);
    char text[256];

    if (desk_ask_line(desk, line, text, sizeof(text), err) == 0)
        return 0;
    if (!text[0])
        return -1;
    return desk_fail(desk, text, VG_E_CONFLICT, VG_E_REFUSED, err);
}

int
vg_proxy_desk_release(vg_proxy_desk *desk, const char *id, GError **err)
{
    g_autofree char *line = g_strconcat("release ", id, NULL);
    char text[256];

    if (!vg_proxy_room_is_id(id))
        return vg_error(err, VG_E_NOT_FOUND, "'%s' is not the id of a reservation", id);
    if (desk_ask_line(desk, line, text, sizeof(text), err) == 0)
        return 0;
    return text[0] ? desk_fail(desk, text, VG_E_NOT_FOUND, VG_E_NOT_FOUND, err) : -1;
}
