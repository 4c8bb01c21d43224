/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts a plan (record classes, environment, and a callback that returns one record at a time)
 * to a trace. ctf-source checks each record and packs the records into packets, as babeltrace2
 * messages. babeltrace2's sink.ctf.fs writes a stream file in DIR/.part, and the metadata to
 * memory. This file then replaces the UUID with a digest of the contents, and moves both files to
 * DIR, or neither.
 *
 * It works around the following behaviour of sink.ctf.fs:
 * - It writes the metadata when its graph is freed, and aborts if the disk is full. It therefore
 *   writes to memory, and this file writes to the disk.
 * - It does not report why it failed. The same request is therefore sent to the kernel again.
 * - It escapes non-ASCII bytes with two hexadecimal digits, but its own reader accepts all digits
 *   that follow. The escapes are therefore reversed.
 * - The UUID of a trace is random. A digest of the trace replaces it.
 */
#include "config.h"

#include "trace/ctf-write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "trace/ctf-graph.h"
#include "trace/ctf-packet.h"
#include "trace/ctf-source.h"

/* The temporary directory in the target directory. sink.ctf.fs creates it. */
#define PART ".part"

/* The space that the sink reserves at a time, and slightly more. */
#define ROOM_TO_ASK_FOR 65536

/* "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
#define UUID_TEXT_LENGTH 36

struct place {
    const char *dir;
    bool made;
    char *part;
    char *part_stream;   /* the sink's name for a stream without a name */
    char *part_metadata; /* link to the memory */
    char *stream;
    char *metadata;
    int memory;
};

/* ---- the directory ---- */

static bool
is_empty(DIR *dir)
{
    const struct dirent *entry;

    while ((entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            return false;
    }
    return true;
}

static int
make_dir(const char *path, bool *ret_made, GError **err)
{
    *ret_made = mkdir(path, 0777) == 0;
    if (*ret_made)
        return 0;
    if (errno != EEXIST)
        return vg_error_errno(err, errno, "cannot create the directory '%s'", path);
    DIR *dir = opendir(path);
    if (!dir && errno == ENOTDIR)
        return vg_error(err, VG_E_CONFLICT, "'%s' exists and is not a directory", path);
    if (!dir)
        return vg_error_errno(err, errno, "cannot read the directory '%s'", path);
    bool empty = is_empty(dir);
    closedir(dir);
    if (!empty)
        return vg_error(err, VG_E_CONFLICT, "the directory '%s' is not empty", path);
    return 0;
}

/* Returns the maximum size of the metadata: every byte of a text escaped, and more than enough for
 * each description. */
static off_t
metadata_bytes_max(const struct vg_ctf_plan *plan)
{
    size_t bytes = 4096;

    for (size_t i = 0; i < plan->n_env; i++)
        bytes += 16 + strlen(plan->env[i].name) + 4 * strlen(plan->env[i].text);
    for (size_t i = 0; i < plan->n_classes; i++) {
        bytes += 128 + 4 * strlen(plan->classes[i].name);
        for (const struct vg_ctf_field *f = plan->classes[i].fields; f->name; f++)
            bytes += 128 + strlen(f->name);
    }
    return (off_t)bytes;
}

/* A limit for file sizes also applies to the memory file. */
static int
make_memory(struct place *place, const struct vg_ctf_plan *plan, GError **err)
{
    place->memory = memfd_create("metadata", MFD_CLOEXEC);
    if (place->memory < 0 || ftruncate(place->memory, metadata_bytes_max(plan)) != 0 ||
        ftruncate(place->memory, 0) != 0)
        return vg_error_errno(err, errno, "out of memory for the metadata of '%s'", place->dir);
    return 0;
}

static int
place_open(struct place *place, const char *dir, const struct vg_ctf_plan *plan, GError **err)
{
    *place = (struct place){.dir = dir, .memory = -1};
    if (make_dir(dir, &place->made, err) < 0)
        return -1;
    place->part = g_build_filename(dir, PART, NULL);
    place->part_stream = g_build_filename(place->part, "stream", NULL);
    place->part_metadata = g_build_filename(place->part, "metadata", NULL);
    place->stream = g_build_filename(dir, "stream", NULL);
    place->metadata = g_build_filename(dir, "metadata", NULL);
    return make_memory(place, plan, err);
}

static void
place_remove_part(const struct place *place)
{
    unlink(place->part_metadata);
    unlink(place->part_stream);
    rmdir(place->part);
}

/* Removes everything that was written. */
static void
place_undo(const struct place *place)
{
    if (place->part) {
        place_remove_part(place);
        unlink(place->metadata);
        unlink(place->stream);
    }
    if (place->made)
        rmdir(place->dir);
}

static void
place_close(struct place *place)
{
    if (place->memory >= 0)
        close(place->memory);
    g_free(place->part);
    g_free(place->part_stream);
    g_free(place->part_metadata);
    g_free(place->stream);
    g_free(place->metadata);
}

/* Returns the kernel's error for the next operation that the sink would perform, or 0. */
static int
try_kernel(const struct place *place)
{
    struct stat st;

    if (mkdir(place->part, 0777) != 0 && errno != EEXIST)
        return errno;
    int fd = open(place->part_stream, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    int errnum = fstat(fd, &st) == 0 ? posix_fallocate(fd, st.st_size, ROOM_TO_ASK_FOR) : errno;
    close(fd);
    return errnum;
}

/* ---- the graph ---- */

/* Babeltrace 2.1 writes CTF 2 by default, and 2.0 does not know this parameter. */
static int
add_ctf_version(bt_value *params)
{
    if (bt_version_get_major() == 2 && bt_version_get_minor() == 0)
        return 0;
    return bt_value_map_insert_string_entry(params, "ctf-version", "1");
}

static int
add_sink(const struct place *place, bt_graph *graph, const bt_component_sink **ret, GError **err)
{
    const bt_component_class_sink *class = ctf_sink_class(err);
    bt_value *params = class ? bt_value_map_create() : NULL;
    int status = -1;

    if (!class)
        return -1;
    if (params && bt_value_map_insert_string_entry(params, "path", place->part) == 0 &&
        bt_value_map_insert_bool_entry(params, "assume-single-trace", BT_TRUE) == 0 &&
        bt_value_map_insert_bool_entry(params, "quiet", BT_TRUE) == 0 &&
        add_ctf_version(params) == 0 &&
        bt_graph_add_sink_component(graph, class, "sink", params, BT_LOGGING_LEVEL_NONE, ret) ==
            BT_GRAPH_ADD_COMPONENT_STATUS_OK)
        status = 0;
    else
        ctf_take_error(err, "babeltrace2 cannot write there");
    bt_value_put_ref(params);
    return status;
}

/* Called when the sink has created the directory. */
static int
link_metadata(const struct place *place, GError **err)
{
    g_autofree char *memory = g_strdup_printf("/proc/self/fd/%d", place->memory);
    int fd = -1;

    if (symlink(memory, place->part_metadata) == 0 || errno == EEXIST)
        fd = open(place->part_metadata, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return vg_error_errno(err, errno, "cannot prepare '%s'", place->part_metadata);
    close(fd);
    return 0;
}

static int
run_graph(const struct place *place, bt_graph *graph, struct ctf_source *records, GError **err)
{
    const bt_component_source *source;
    const bt_component_sink *sink;

    if (ctf_source_add(records, graph, &source, err) < 0 ||
        add_sink(place, graph, &sink, err) < 0 || link_metadata(place, err) < 0)
        return -1;
    if (bt_graph_connect_ports(graph,
                               bt_component_source_borrow_output_port_by_index_const(source, 0),
                               bt_component_sink_borrow_input_port_by_index_const(sink, 0),
                               NULL) != BT_GRAPH_CONNECT_PORTS_STATUS_OK)
        return ctf_take_error(err, "cannot connect the stream");
    if (bt_graph_run(graph) != BT_GRAPH_RUN_STATUS_OK)
        return ctf_take_error(err, "babeltrace2 failed");
    return 0;
}

/* Reports the cause of a failure: the records, the disk, or else what babeltrace2 reports. */
static int
explain(const struct place *place, struct ctf_source *records, const GError *told, GError **err)
{
    g_autoptr(GError) error = ctf_source_take_error(records);

    if (error) {
        g_propagate_error(err, g_steal_pointer(&error));
        return -1;
    }
    int errnum = try_kernel(place);
    if (errnum != 0)
        return vg_error_errno(err, errnum, "cannot write the trace '%s'", place->dir);
    return vg_error(err, (enum vg_error_code)told->code, "cannot write the trace '%s': %s",
                    place->dir, told->message);
}

/* Frees the graph. The sink opens the metadata at this point, and aborts if the directory was
 * removed. */
static void
free_graph(const struct place *place, bt_graph *take_graph)
{
    if (access(place->part_metadata, W_OK) != 0) {
        g_mkdir_with_parents(place->part, 0777);
        (void)!link_metadata(place, NULL);
    }
    bt_graph_put_ref(take_graph);
}

static int
write_stream(const struct place *place, const struct vg_ctf_plan *plan, GError **err)
{
    g_autoptr(GError) told = NULL;
    int status = -1;

    bt_current_thread_clear_error();
    bt_graph *graph = bt_graph_create(0);
    if (!graph)
        return ctf_take_error(err, "cannot create a babeltrace2 graph");
    struct ctf_source *records = ctf_source_new(plan);
    if (run_graph(place, graph, records, &told) == 0)
        status = 0;
    else
        explain(place, records, told, err);
    ctf_source_drop_messages(records);
    free_graph(place, graph);
    ctf_source_free(records);
    return status;
}

/* ---- the UUID ---- */

/* Calls fn for the header of each packet. */
static int
for_each_packet(const struct place *place, const struct ctf_layout *layout,
                int (*fn)(void *data, int64_t offset, const struct ctf_head *head), void *data,
                GError **err)
{
    CTF_AUTO_FILE file = {.fd = -1};
    struct ctf_head head;

    if (ctf_file_open(&file, place->part_stream, err) < 0)
        return -1;
    for (int64_t offset = 0; offset < file.size; offset += head.packet_size) {
        if (!ctf_head_read(layout, &file, offset, &head) || !head.sane)
            return vg_error(err, VG_E_EXTERNAL,
                            "babeltrace2 wrote no packet at %" G_GINT64_FORMAT " of '%s'", offset,
                            place->part_stream);
        if (fn(data, offset, &head) != 0)
            return vg_error_errno(err, errno, "cannot write '%s'", place->part_stream);
    }
    return 0;
}

/* Adds the header of a packet to the digest, except for the random UUID. */
static int
digest_head(void *data, int64_t offset, const struct ctf_head *head)
{
    const size_t from = CTF_MAGIC_SIZE + CTF_UUID_SIZE;

    (void)offset;
    g_checksum_update(data, head->bytes + from, (gssize)(head->length - from));
    return 0;
}

struct stamp {
    int fd;
    uint8_t uuid[CTF_UUID_SIZE];
};

static int
stamp_head(void *data, int64_t offset, const struct ctf_head *head)
{
    const struct stamp *stamp = data;
    ssize_t n = pwrite(stamp->fd, stamp->uuid, CTF_UUID_SIZE, offset + CTF_MAGIC_SIZE);

    (void)head;
    if (n >= 0 && n != CTF_UUID_SIZE)
        errno = ENOSPC;
    return n == CTF_UUID_SIZE ? 0 : -1;
}

static int
stamp_packets(const struct place *place, const struct ctf_layout *layout, struct stamp *stamp,
              GError **err)
{
    stamp->fd = open(place->part_stream, O_WRONLY | O_CLOEXEC);
    if (stamp->fd < 0)
        return vg_error_errno(err, errno, "cannot write '%s'", place->part_stream);
    int status = for_each_packet(place, layout, stamp_head, stamp, err);
    if (close(stamp->fd) != 0 && status == 0)
        return vg_error_errno(err, errno, "cannot write '%s'", place->part_stream);
    return status;
}

static char *
uuid_to_text(const uint8_t *uuid)
{
    GString *text = g_string_new(NULL);

    for (size_t i = 0; i < CTF_UUID_SIZE; i++)
        g_string_append_printf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                               uuid[i]);
    return g_string_free(text, FALSE);
}

/* The first UUID of the metadata is the trace's. */
static int
replace_uuid(const struct place *place, GString *metadata, GError **err)
{
    g_autoptr(GChecksum) digest = g_checksum_new(G_CHECKSUM_SHA256);
    g_autoptr(GPtrArray) paths = g_ptr_array_new();
    struct ctf_layout layout;
    struct stamp stamp;

    g_ptr_array_add(paths, place->part_stream);
    ctf_layout_learn(&layout, place->part, paths);
    if (layout.n_uuids == 0)
        return vg_error(err, VG_E_EXTERNAL, "babeltrace2 did not give the trace '%s' a UUID",
                        place->dir);
    g_autofree char *random = uuid_to_text(layout.uuids[0]);
    char *at = strstr(metadata->str, random);
    if (!at)
        return vg_error(err, VG_E_EXTERNAL, "the UUID of the trace '%s' was not found", place->dir);
    memset(at, '0', UUID_TEXT_LENGTH);
    g_checksum_update(digest, (const guchar *)metadata->str, (gssize)metadata->len);
    if (for_each_packet(place, &layout, digest_head, digest, err) < 0)
        return -1;
    ctf_digest_to_uuid(digest, stamp.uuid);
    g_autofree char *text = uuid_to_text(stamp.uuid);
    memcpy(at, text, UUID_TEXT_LENGTH);
    return stamp_packets(place, &layout, &stamp, err);
}

/* ---- the metadata ---- */

/* Restores escaped bytes such as "\xc3\xa9". Any other escape remains. */
static void
unescape_bytes(GString *text)
{
    size_t to = 0;

    for (size_t from = 0; from < text->len; from++) {
        const char *c = text->str + from;
        if (c[0] != '\\') {
            text->str[to++] = c[0];
        } else if (c[1] == 'x' && g_ascii_isxdigit(c[2]) && g_ascii_isxdigit(c[3])) {
            text->str[to++] = (char)(g_ascii_xdigit_value(c[2]) << 4 | g_ascii_xdigit_value(c[3]));
            from += 3;
        } else {
            text->str[to++] = c[0];
            text->str[to++] = c[1];
            from++;
        }
    }
    g_string_truncate(text, to);
}

static GString *
read_memory(const struct place *place, GError **err)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL;
    gsize length;

    if (!g_file_get_contents(place->part_metadata, &text, &length, &error)) {
        vg_error(err, VG_E_IO, "%s", error->message);
        return NULL;
    }
    return g_string_new_len(text, (gssize)length);
}

static int
write_metadata(const struct place *place, const GString *text, GError **err)
{
    FILE *file = fopen(place->metadata, "wxe");
    bool written = file && fwrite(text->str, text->len, 1, file) == 1;
    int errnum = written ? 0 : errno;

    if (file && fclose(file) != 0 && errnum == 0)
        errnum = errno;
    if (errnum != 0)
        return vg_error_errno(err, errnum, "cannot write '%s'", place->metadata);
    return 0;
}

static int
ctf_write_finish(const struct place *place, GError **err)
{
    GString *metadata = read_memory(place, err);
    int status = -1;

    if (!metadata)
        return -1;
    if (replace_uuid(place, metadata, err) == 0) {
        unescape_bytes(metadata);
        if (rename(place->part_stream, place->stream) != 0)
            vg_error_errno(err, errno, "cannot rename '%s'", place->part_stream);
        else
            status = write_metadata(place, metadata, err);
    }
    g_string_free(metadata, TRUE);
    return status;
}

int
vg_ctf_write(const char *dir, const struct vg_ctf_plan *plan, GError **err)
{
    struct place place;
    int status = -1;

    if (ctf_plan_check(plan, err) < 0)
        return -1;
    if (place_open(&place, dir, plan, err) == 0 && write_stream(&place, plan, err) == 0 &&
        ctf_write_finish(&place, err) == 0)
        status = 0;
    if (status == 0)
        place_remove_part(&place);
    else
        place_undo(&place);
    place_close(&place);
    return status;
}
