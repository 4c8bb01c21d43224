/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/proxy-control.h"

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

struct vg_proxy_control {
    int fd;
    char *path;
    int64_t limit_ns;
};

static int
control_connect(int fd, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    return connect(fd, (struct sockaddr *)&address, sizeof(address));
}

vg_proxy_control *
vg_proxy_control_open(const char *path, int64_t limit_ns, GError **err)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || control_connect(fd, path) != 0) {
        bool is_gone = errno == ENOENT || errno == ECONNREFUSED;
        vg_error(err, is_gone ? VG_E_NOT_FOUND : VG_E_IO, "%s: %s", path, g_strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    vg_proxy_control *control = g_new0(vg_proxy_control, 1);
    control->fd = fd;
    control->path = g_strdup(path);
    control->limit_ns = limit_ns;
    return control;
}

void
vg_proxy_control_close(vg_proxy_control *control)
{
    if (!control)
        return;
    close(control->fd);
    g_free(control->path);
    g_free(control);
}

/* Receives an answer. Returns the descriptor of its file, -2 if there is none, or -1 on failure. */
static int
control_receive(const vg_proxy_control *control, char *text, size_t size, GError **err)
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
    ssize_t n = recvmsg(control->fd, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    int fd = -2;

    if (n <= 0)
        return vg_error(err, VG_E_IO, "%s: %s", control->path,
                        n < 0 ? g_strerror(errno) : "it closed the connection");
    text[n] = '\0';
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(fd)))
        memcpy(&fd, CMSG_DATA(head), sizeof(fd));
    return fd;
}

static int
control_send(const vg_proxy_control *control, const char *line, GError **err)
{
    if (send(control->fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return vg_error(err, VG_E_IO, "%s: %s", control->path, g_strerror(errno));
    return 0;
}

/* Sends a line and receives the answer like control_receive(). */
static int
control_ask(const vg_proxy_control *control, const char *line, char *text, size_t size,
            GError **err)
{
    struct pollfd answer = {.fd = control->fd, .events = POLLIN};

    if (control_send(control, line, err) < 0)
        return -1;
    if (vg_clock_poll(&answer, 1, vg_clock_monotonic_ns() + control->limit_ns) <= 0)
        return vg_error(err, VG_E_TIMEOUT, "%s: it does not answer", control->path);
    return control_receive(control, text, size, err);
}

/* Reads and closes the file of an answer. */
static json_object *
control_read_file(const vg_proxy_control *control, int fd, GError **err)
{
    struct stat status;
    json_object *object = NULL;

    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > ANSWER_MAX) {
        vg_error(err, VG_E_EXTERNAL, "%s: its answer is not a regular file", control->path);
    } else {
        g_autofree char *text = g_malloc0((size_t)status.st_size + 1);
        ssize_t n = pread(fd, text, (size_t)status.st_size, 0);
        object = vg_json_parse(text, n > 0 ? (size_t)n : 0, ANSWER_MAX, 6, err);
    }
    close(fd);
    return object;
}

/* Returns whether an answer from an older proxy, which has no codes, means VG_E_NOT_FOUND. */
static bool
control_is_not_found_of_old(const char *answer)
{
    return strstr(answer, "no such socket") != NULL;
}

/* Reads "error CODE: REASON". Returns the code of the error: `otherwise`, unless the proxy does not
 * have the named object. Sets *ret_why to the reason. */
static int
control_read_error(const char *line, int otherwise, const char **ret_why)
{
    static const char word[] = "error ", not_found[] = "not-found";
    const char *code = line + (g_str_has_prefix(line, word) ? strlen(word) : 0);
    const size_t length = strspn(code, "abcdefghijklmnopqrstuvwxyz-");

    *ret_why = code;
    if (length == 0 || !g_str_has_prefix(code + length, ": "))
        return control_is_not_found_of_old(line) ? VG_E_NOT_FOUND : otherwise;
    *ret_why = code + length + strlen(": ");
    return length == strlen(not_found) && strncmp(code, not_found, length) == 0 ? VG_E_NOT_FOUND
                                                                                : otherwise;
}

/* Returns the content of an answer's file, as received by control_receive(). Returns NULL if there
 * is none, or it cannot be read. */
static json_object *
control_take_file(const vg_proxy_control *control, int fd, const char *text, int64_t *pid,
                  GError **err)
{
    if (fd == -2 && g_str_has_prefix(text, "error ")) {
        const char *why;
        const int code = control_read_error(text, VG_E_EXTERNAL, &why);
        vg_error(err, code, "%s: %s", control->path, why);
    } else if (fd == -2) {
        vg_error(err, VG_E_EXTERNAL, "%s: its answer contains no file", control->path);
    }
    if (fd < 0)
        return NULL;
    g_autoptr(json_object) object = control_read_file(control, fd, err);
    struct vg_json_node root = vg_json_root(object), number;
    if (!object || vg_json_member(&root, "pid", VG_JSON_REQUIRED, &number, err) < 0 ||
        vg_json_int64(&number, 1, INT32_MAX, pid, err) < 0)
        return NULL;
    return g_steal_pointer(&object);
}

/* Sends a request that is answered with a file. Returns its content, or NULL if the proxy refuses
 * or fails.
 */
static json_object *
control_ask_file(const vg_proxy_control *control, const char *line, int64_t *pid, GError **err)
{
    char text[256] = "";
    const int fd = control_ask(control, line, text, sizeof(text), err);

    return control_take_file(control, fd, text, pid, err);
}

struct vg_proxy_shown *
vg_proxy_control_show(vg_proxy_control *control, const char *socket, GError **err)
{
    g_autofree char *line = g_strconcat("show ", socket, NULL);
    int64_t pid;
    g_autoptr(json_object) object = control_ask_file(control, line, &pid, err);
    struct vg_json_node root = vg_json_root(object);
    struct vg_proxy_shown *shown =
        object ? vg_record_read(&vg_proxy_shown_record, &root, err) : NULL;

    struct vg_proxy_report *told =
        shown ? vg_record_read(&vg_proxy_report_record, &root, err) : NULL;
    if (told) {
        vg_proxy_socket_complete(&shown->socket, told, control->path);
        vg_record_free(&vg_proxy_report_record, told);
        return shown;
    }
    if (shown)
        vg_record_free(&vg_proxy_shown_record, shown);
    return NULL;
}

static void *
control_copy_socket(const void *socket, void *data)
{
    (void)data;
    return vg_record_copy(&vg_proxy_socket_record, socket);
}

static GPtrArray *
control_read_list(const vg_proxy_control *control, json_object *object, GError **err)
{
    struct vg_json_node root = vg_json_root(object), sockets;
    struct vg_proxy_report *told = NULL;

    if (object && vg_json_member(&root, "sockets", VG_JSON_REQUIRED, &sockets, err) >= 0)
        told = vg_record_read(&vg_proxy_report_record, &root, err);
    if (!told)
        return NULL;
    for (guint i = 0; i < told->sockets->len; i++)
        vg_proxy_socket_complete(told->sockets->pdata[i], told, control->path);
    g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(vg_proxy_socket_free);
    g_ptr_array_extend(list, told->sockets, control_copy_socket, NULL);
    vg_record_free(&vg_proxy_report_record, told);
    return g_steal_pointer(&list);
}

GPtrArray *
vg_proxy_control_list(vg_proxy_control *control, GError **err)
{
    int64_t pid;
    g_autoptr(json_object) object = control_ask_file(control, LIST, &pid, err);

    return control_read_list(control, object, err);
}

int
vg_proxy_control_request_list(vg_proxy_control *control, GError **err)
{
    return control_send(control, LIST, err);
}

GPtrArray *
vg_proxy_control_take_list(vg_proxy_control *control, GError **err)
{
    struct pollfd answer = {.fd = control->fd, .events = POLLIN};
    char text[256] = "";
    int64_t pid;

    if (poll(&answer, 1, 0) <= 0)
        return NULL;
    const int fd = control_receive(control, text, sizeof(text), err);
    g_autoptr(json_object) object = control_take_file(control, fd, text, &pid, err);
    return control_read_list(control, object, err);
}

int
vg_proxy_control_fd(const vg_proxy_control *control)
{
    return control->fd;
}

/* Sends a request that is answered with a line. Returns 0 after "ok", otherwise -1. TEXT is then
 * the answer, or empty if there is none and *err is set. */
static int
control_ask_line(vg_proxy_control *control, const char *line, char *text, size_t size, GError **err)
{
    text[0] = '\0';
    int fd = control_ask(control, line, text, size, err);

    if (fd >= 0)
        close(fd);
    if (fd == -1)
        text[0] = '\0';
    return fd != -1 && strcmp(text, "ok") == 0 ? 0 : -1;
}

/* Sets the error for an answer that is neither "ok" nor empty. "refused REASON" has the code
 * `refused`, and any other answer that of control_read_error(). */
static int
control_fail(const vg_proxy_control *control, const char *text, int refused, int otherwise,
             GError **err)
{
    static const char word[] = "refused ";
    const char *why;

    if (g_str_has_prefix(text, word))
        return vg_error(err, refused, "%s: %s", control->path, text + strlen(word));
    const int code = control_read_error(text, otherwise, &why);
    return vg_error(err, code, "%s: %s", control->path, why);
}

int
vg_proxy_control_set_weight(vg_proxy_control *control, const char *socket, int64_t weight,
                            GError **err)
{
    g_autofree char *line = g_strdup_printf("weight %" G_GINT64_FORMAT " %s", weight, socket);
    char text[256];

    if (control_ask_line(control, line, text, sizeof(text), err) == 0)
        return 0;
    return text[0] ? control_fail(control, text, VG_E_NOT_FOUND, VG_E_NOT_FOUND, err) : -1;
}

int
vg_proxy_control_reserve(vg_proxy_control *control, const char *socket,
                         const struct vg_proxy_room *room, GError **err)
{
    const int64_t mib = (room->memory_bytes >> 20) + ((room->memory_bytes & 0xfffff) != 0);
    g_autofree char *line =
        g_strdup_printf("reserve %s %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %s", room->id,
                        room->seconds, MAX(mib, 1), socket);
    char text[256];

    if (control_ask_line(control, line, text, sizeof(text), err) == 0)
        return 0;
    if (!text[0])
        return -1;
    return control_fail(control, text, VG_E_CONFLICT, VG_E_REFUSED, err);
}

int
vg_proxy_control_release(vg_proxy_control *control, const char *id, GError **err)
{
    g_autofree char *line = g_strconcat("release ", id, NULL);
    char text[256];

    if (!vg_proxy_room_is_id(id))
        return vg_error(err, VG_E_NOT_FOUND, "'%s' is not a reservation ID", id);
    if (control_ask_line(control, line, text, sizeof(text), err) == 0)
        return 0;
    return text[0] ? control_fail(control, text, VG_E_NOT_FOUND, VG_E_NOT_FOUND, err) : -1;
}
