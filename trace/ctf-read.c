/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts trace directories to recordings. Opens each directory as a whole if babeltrace2 accepts
 * it, otherwise file by file. Groups the streams by clock and merges them by time.
 */
#include "config.h"

#include "trace/ctf-read.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "trace/ctf-memory.h"
#include "trace/ctf-merge.h"
#include "trace/ctf-stream.h"

/* The maximum depth of directories below a path, more than anybody uses. */
#define TREE_DEPTH_MAX 64

/* The size of a packet's header and context. No two streams of a trace have the same. */
#define COPY_HEAD_SIZE 84

/* The number of events between two calls of ctf_memory_release(): about 8 MiB of trace. */
#define EVENTS_PER_RELEASE 131072

struct ctf_recording {
    vg_recording base;
    char *clock_key;
    GPtrArray *traces;  /* struct ctf_trace, owned */
    GPtrArray *streams; /* struct ctf_stream, owned */
    GPtrArray *dirs;    /* char *: directories without links in which mapped stream files may be */
    struct ctf_merge *merge; /* NULL: nothing has been read yet */
    int64_t bytes;           /* of all stream files */
};

/* ---- finding traces ---- */

static int
compare_strings(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool
is_regular(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

void
vg_ctf_tree_init(struct vg_ctf_tree *tree)
{
    tree->dirs = g_ptr_array_new_with_free_func(g_free);
    tree->troubles = g_ptr_array_new_with_free_func(vg_trace_problem_free);
    tree->seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
}

void
vg_ctf_tree_clear(struct vg_ctf_tree *tree)
{
    g_clear_pointer(&tree->dirs, g_ptr_array_unref);
    g_clear_pointer(&tree->troubles, g_ptr_array_unref);
    g_clear_pointer(&tree->seen, g_hash_table_unref);
}

/* Several links may lead to the same directory, or form a cycle. */
static bool
is_new_directory(struct vg_ctf_tree *tree, const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
           g_hash_table_add(tree->seen,
                            g_strdup_printf("%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino));
}

static void
find_traces(struct vg_ctf_tree *tree, const char *path, unsigned int depth, GPtrArray *found)
{
    g_autofree char *metadata = g_build_filename(path, "metadata", NULL);
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GError) error = NULL;
    GDir *dir = g_dir_open(path, 0, &error);
    const char *name;

    if (!dir) {
        g_ptr_array_add(tree->troubles, vg_trace_problem_new(path, 0, error->message));
        return;
    }
    while ((name = g_dir_read_name(dir)))
        g_ptr_array_add(names, g_build_filename(path, name, NULL));
    g_dir_close(dir);
    g_ptr_array_sort(names, compare_strings);
    if (is_regular(metadata))
        g_ptr_array_add(found, g_strdup(path));
    for (unsigned int i = 0; i < names->len; i++) {
        const char *below = g_ptr_array_index(names, i);
        if (!is_new_directory(tree, below))
            continue;
        if (depth < TREE_DEPTH_MAX) {
            find_traces(tree, below, depth + 1, found);
            continue;
        }
        g_autofree char *what =
            g_strdup_printf("not searched: more than %d levels of directories", TREE_DEPTH_MAX);
        g_ptr_array_add(tree->troubles, vg_trace_problem_new(below, 0, what));
    }
}

int
vg_ctf_tree_add(struct vg_ctf_tree *tree, const char *path, GError **err)
{
    g_autoptr(GPtrArray) found = g_ptr_array_new_with_free_func(g_free);
    unsigned int troubles = tree->troubles->len;

    if (!is_new_directory(tree, path))
        return 0;
    find_traces(tree, path, 0, found);
    if (found->len == 0 && tree->troubles->len > troubles) {
        const struct vg_trace_problem *trouble = g_ptr_array_index(tree->troubles, troubles);
        return vg_error(err, VG_E_DENIED, "cannot search '%s' for CTF traces: %s: %s", path,
                        trouble->file, trouble->what);
    }
    if (found->len == 0)
        return vg_error(err, VG_E_NOT_FOUND,
                        "no CTF trace in '%s': no directory in it contains a file named 'metadata'",
                        path);
    g_ptr_array_sort(found, compare_strings);
    g_ptr_array_extend_and_steal(tree->dirs, g_steal_pointer(&found));
    return 0;
}

/* ---- one directory ---- */

static void
trace_free(void *data)
{
    struct ctf_trace *trace = data;

    g_ptr_array_unref(trace->paths);
    g_free(trace->dir);
    g_free(trace);
}

/* Lists the stream files: every regular file that babeltrace2 accepts as one. */
static void
list_streams(struct ctf_recording *recording, struct ctf_trace *trace)
{
    GDir *dir = g_dir_open(trace->dir, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(trace->dir, name, NULL);
        if (name[0] == '.' || strcmp(name, "metadata") == 0 || !is_regular(path))
            continue;
        int64_t size = ctf_file_size(path);
        if (size == 0) {
            vg_recording_problem(&recording->base, path, 0, "the stream file is empty");
            continue;
        }
        recording->bytes += size;
        g_ptr_array_add(trace->paths, g_steal_pointer(&path));
    }
    if (dir)
        g_dir_close(dir);
    g_ptr_array_sort(trace->paths, compare_strings);
}

static int
longest_first(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    int64_t more = ctf_file_size(y) - ctf_file_size(x);

    return more != 0 ? (more > 0) - (more < 0) : strcmp(x, y);
}

/* Returns the start of a stream file's first packet as a key, or NULL if there is no packet. */
static GBytes *
read_first_head(const char *path)
{
    CTF_AUTO_FILE file = {.fd = -1};
    uint8_t head[COPY_HEAD_SIZE];

    if (ctf_file_open(&file, path, NULL) < 0 ||
        pread(file.fd, head, sizeof(head), 0) != (ssize_t)sizeof(head) || !ctf_has_magic(head))
        return NULL;
    return g_bytes_new(head, sizeof(head));
}

/* A copy next to a stream file would count its events twice. */
static void
leave_copies_out(struct ctf_recording *recording, struct ctf_trace *trace)
{
    g_autoptr(GHashTable) originals =
        g_hash_table_new_full(g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
    g_autoptr(GPtrArray) paths = g_steal_pointer(&trace->paths);

    trace->paths = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_sort(paths, longest_first);
    for (unsigned int i = 0; i < paths->len; i++) {
        char *path = g_ptr_array_index(paths, i);
        GBytes *head = read_first_head(path);
        const char *original = head ? g_hash_table_lookup(originals, head) : NULL;
        if (original) {
            vg_recording_problem(&recording->base, path, 0,
                                 "ignored: it starts with the same packet as '%s'", original);
            g_bytes_unref(head);
            continue;
        }
        char *kept = g_strdup(path);
        g_ptr_array_add(trace->paths, kept);
        if (head)
            g_hash_table_insert(originals, head, kept);
    }
    g_ptr_array_sort(trace->paths, compare_strings);
}

/* LTTng keeps an index file per stream, which shows that a stream file is missing. */
static void
note_missing_streams(struct ctf_recording *recording, const struct ctf_trace *trace)
{
    g_autofree char *index = g_build_filename(trace->dir, "index", NULL);
    GDir *dir = g_dir_open(index, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        if (!g_str_has_suffix(name, ".idx"))
            continue;
        g_autofree char *stream = g_strndup(name, strlen(name) - strlen(".idx"));
        g_autofree char *path = g_build_filename(trace->dir, stream, NULL);
        if (!g_file_test(path, G_FILE_TEST_EXISTS))
            vg_recording_problem(&recording->base, path, 0,
                                 "the stream file of index '%s' is missing", name);
    }
    if (dir)
        g_dir_close(dir);
}

static void
add_stream(struct ctf_recording *recording, struct ctf_trace *trace, struct ctf_graph *graph,
           unsigned int port, const char *path)
{
    g_ptr_array_add(recording->streams, ctf_stream_new(&recording->base, trace, graph, port, path));
}

static void
add_graph(struct ctf_recording *recording, struct ctf_trace *trace, struct ctf_graph *graph,
          const char *path)
{
    for (unsigned int i = 0; i < ctf_graph_streams(graph); i++)
        add_stream(recording, trace, graph, i, path);
}

/* Makes babeltrace2 open the files of the streams added since `first`, so that the private
 * directory through which they were opened can be removed. */
static void
prime(const struct ctf_recording *recording, unsigned int first)
{
    for (unsigned int i = first; i < recording->streams->len; i++)
        ctf_stream_peek(g_ptr_array_index(recording->streams, i));
}

/* Opens whole files through links in a private directory, or returns NULL if refused. */
static struct ctf_graph *
open_linked(const struct ctf_trace *trace, const GPtrArray *paths, char **ret_private_dir,
            GError **err)
{
    g_autofree char *private_dir = ctf_private_dir_new(trace->dir, true, err);
    struct ctf_graph *graph = NULL;
    bool linked = private_dir != NULL;

    for (unsigned int i = 0; linked && i < paths->len; i++)
        linked = ctf_private_dir_link(private_dir, g_ptr_array_index(paths, i), err) == 0;
    if (linked)
        graph = ctf_graph_open(private_dir, err);
    if (linked && !graph && err)
        ctf_private_dir_name_original(*err, private_dir, trace->dir);
    if (graph)
        *ret_private_dir = g_steal_pointer(&private_dir);
    else if (private_dir)
        ctf_private_dir_remove(private_dir);
    return graph;
}

/* Opens one graph per file. Files that are refused are read as far as they can be repaired. */
static void
open_one_by_one(struct ctf_recording *recording, struct ctf_trace *trace)
{
    for (unsigned int i = 0; i < trace->paths->len; i++) {
        char *path = g_ptr_array_index(trace->paths, i);
        g_autoptr(GPtrArray) alone = g_ptr_array_new();
        g_autofree char *private_dir = NULL;
        unsigned int first = recording->streams->len;
        struct ctf_graph *graph = NULL;
        g_ptr_array_add(alone, path);
        if (ctf_file_is_sound(&trace->layout, path))
            graph = open_linked(trace, alone, &private_dir, NULL);
        if (!graph) {
            add_stream(recording, trace, NULL, 0, path);
            continue;
        }
        add_graph(recording, trace, graph, path);
        ctf_graph_unref(graph);
        prime(recording, first);
        ctf_private_dir_remove(private_dir);
    }
}

static bool
is_accepted_alone(const struct ctf_trace *trace, char *path)
{
    g_autoptr(GPtrArray) alone = g_ptr_array_new();
    g_autofree char *private_dir = NULL;

    g_ptr_array_add(alone, path);
    struct ctf_graph *graph = open_linked(trace, alone, &private_dir, NULL);
    bool accepted = graph != NULL;
    if (private_dir)
        ctf_private_dir_remove(private_dir);
    ctf_graph_unref(graph);
    return accepted;
}

/* Usually, one file of many is damaged. The intact ones share a graph, which avoids reading the
 * metadata for each of them. */
static void
open_sound_and_damaged(struct ctf_recording *recording, struct ctf_trace *trace)
{
    g_autoptr(GPtrArray) sound = g_ptr_array_new();
    g_autoptr(GPtrArray) damaged = g_ptr_array_new();
    g_autofree char *private_dir = NULL;
    struct ctf_graph *graph = NULL;

    for (unsigned int i = 0; i < trace->paths->len; i++) {
        char *path = g_ptr_array_index(trace->paths, i);
        bool good = ctf_file_is_sound(&trace->layout, path) && is_accepted_alone(trace, path);
        g_ptr_array_add(good ? sound : damaged, path);
    }
    if (sound->len > 0)
        graph = open_linked(trace, sound, &private_dir, NULL);
    if (sound->len > 0 && (!graph || ctf_graph_streams(graph) != sound->len)) {
        ctf_graph_unref(graph);
        if (private_dir)
            ctf_private_dir_remove(private_dir);
        open_one_by_one(recording, trace);
        return;
    }
    if (graph) {
        add_graph(recording, trace, graph, NULL);
        ctf_graph_unref(graph);
        prime(recording, 0);
        ctf_private_dir_remove(private_dir);
    }
    for (unsigned int i = 0; i < damaged->len; i++)
        add_stream(recording, trace, NULL, 0, g_ptr_array_index(damaged, i));
}

/* Reading single files requires a directory for links and copies. */
static bool
has_private_place(const struct ctf_trace *trace, GError **err)
{
    g_autofree char *private_dir = ctf_private_dir_new(trace->dir, true, err);

    if (private_dir)
        ctf_private_dir_remove(private_dir);
    return private_dir != NULL;
}

/* babeltrace2 believes LTTng's index files, and aborts on some contents. Through links, it does not
 * see them. It then sees metadata that has its first line. */
static struct ctf_graph *
open_whole(const struct ctf_trace *trace, char **ret_private_dir, GError **err)
{
    g_autofree char *index = g_build_filename(trace->dir, "index", NULL);

    if ((g_file_test(index, G_FILE_TEST_IS_DIR) || trace->layout.lacks_mark) &&
        has_private_place(trace, NULL))
        return open_linked(trace, trace->paths, ret_private_dir, err);
    return ctf_graph_open(trace->dir, err);
}

/* Handles the usual case without any problem. */
static bool
open_sound(struct ctf_recording *recording, struct ctf_trace *trace, GError **err)
{
    g_autofree char *private_dir = NULL;

    for (unsigned int i = 0; i < trace->paths->len; i++) {
        if (!ctf_file_is_sound(&trace->layout, g_ptr_array_index(trace->paths, i))) {
            vg_error(err, VG_E_INVALID, "a stream file is damaged");
            return false;
        }
    }
    struct ctf_graph *graph = open_whole(trace, &private_dir, err);
    /* If several files form one stream, each must be opened alone to determine its name. */
    bool usable = graph && ctf_graph_streams(graph) == trace->paths->len;
    if (usable) {
        add_graph(recording, trace, graph, NULL);
        prime(recording, 0);
    }
    ctf_graph_unref(graph);
    if (private_dir)
        ctf_private_dir_remove(private_dir);
    return usable;
}

static bool
is_any_described(const struct ctf_recording *recording)
{
    for (unsigned int i = 0; i < recording->streams->len; i++) {
        const struct ctf_stream *stream = g_ptr_array_index(recording->streams, i);
        if (stream->decoder.described)
            return true;
    }
    return false;
}

static void
open_streams(struct ctf_recording *recording, struct ctf_trace *trace)
{
    g_autofree char *metadata = g_build_filename(trace->dir, "metadata", NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(GError) place_error = NULL;
    int64_t offset;

    if (ctf_metadata_check(metadata, &offset, &error) < 0) {
        vg_recording_problem(&recording->base, metadata, offset, "%s", error->message);
        return;
    }
    if (trace->paths->len == 0 || open_sound(recording, trace, &error))
        return;
    if (!has_private_place(trace, &place_error)) {
        vg_recording_problem(&recording->base, trace->dir, 0,
                             "the trace can be read neither as a whole (%s) nor file by file: %s",
                             error ? error->message : "several files make one stream",
                             place_error->message);
        return;
    }
    open_sound_and_damaged(recording, trace);
    prime(recording, 0);
    if (!is_any_described(recording))
        vg_recording_problem(&recording->base, metadata, 0,
                             "no stream of this trace can be read: %s; if the metadata is invalid, "
                             "'babeltrace2 %s' names the line",
                             error ? error->message : "all are damaged", trace->dir);
}

/* ---- recordings ---- */

static int next_event(vg_recording *base, struct vg_event *ret_event, GError **err);
static double progress(const vg_recording *base);
static void recording_free(vg_recording *base);

static const struct vg_recording_ops ctf_ops = {
    .next = next_event,
    .progress = progress,
    .free = recording_free,
};

static void
ctf_read_stream_free(void *data)
{
    ctf_stream_free(data);
}

static struct ctf_recording *
open_trace(const char *dir, vg_names *names, vg_aliases *aliases)
{
    struct ctf_recording *recording = g_new0(struct ctf_recording, 1);
    struct ctf_trace *trace = g_new0(struct ctf_trace, 1);

    vg_recording_init(&recording->base, &ctf_ops, dir, names, aliases);
    recording->traces = g_ptr_array_new_with_free_func(trace_free);
    recording->streams = g_ptr_array_new_with_free_func(ctf_read_stream_free);
    trace->dir = g_strdup(dir);
    recording->dirs = g_ptr_array_new_with_free_func(free);
    char *real_dir = realpath(dir, NULL);
    if (real_dir)
        g_ptr_array_add(recording->dirs, real_dir);
    trace->paths = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(recording->traces, trace);
    list_streams(recording, trace);
    leave_copies_out(recording, trace);
    ctf_layout_learn(&trace->layout, trace->dir, trace->paths);
    note_missing_streams(recording, trace);
    open_streams(recording, trace);
    return recording;
}

/* The properties of the whole recording come from its first stream that could be described. */
static bool
describe_recording(struct ctf_recording *recording)
{
    bool any = false;

    for (unsigned int i = 0; i < recording->streams->len; i++) {
        struct ctf_stream *stream = g_ptr_array_index(recording->streams, i);
        if (!stream->decoder.clock_key)
            continue;
        if (!any) {
            recording->clock_key = g_strdup(stream->decoder.clock_key);
            recording->base.clock_offset_ns = stream->decoder.clock.offset_ns;
            recording->base.hostname = g_strdup(stream->decoder.hostname);
        }
        any = true;
        recording->base.has_wakeup |= stream->decoder.has_wakeup;
        recording->base.has_switch |= stream->decoder.comm_from_switches;
    }
    return any;
}

static void
move_problems(struct ctf_recording *to, struct ctf_recording *from)
{
    for (unsigned int i = 0; i < from->base.problems.list->len; i++) {
        const struct vg_trace_problem *problem = g_ptr_array_index(from->base.problems.list, i);
        vg_recording_problem(&to->base, problem->file, problem->offset, "%s", problem->what);
    }
    to->base.problems.dropped += from->base.problems.dropped;
    g_ptr_array_set_size(from->base.problems.list, 0);
}

static void
ctf_read_add_vms(struct ctf_recording *to, const struct ctf_recording *from)
{
    for (unsigned int i = 0; i < from->base.vms->len; i++) {
        const struct vg_recorded_vm *vm = &g_array_index(from->base.vms, struct vg_recorded_vm, i);
        vg_recording_add_vm(&to->base, from->base.name, vm->pid, vm->name,
                            vm->uuid[0] ? vm->uuid : NULL);
    }
}

/* Moves streams to a recording with the same clock, and frees from. */
static void
absorb(struct ctf_recording *to, struct ctf_recording *from)
{
    for (unsigned int i = 0; i < from->streams->len; i++) {
        struct ctf_stream *stream = g_ptr_array_index(from->streams, i);
        stream->recording = &to->base;
    }
    g_ptr_array_extend_and_steal(to->streams, g_steal_pointer(&from->streams));
    g_ptr_array_extend_and_steal(to->traces, g_steal_pointer(&from->traces));
    g_ptr_array_extend_and_steal(to->dirs, g_steal_pointer(&from->dirs));
    from->streams = g_ptr_array_new();
    from->traces = g_ptr_array_new();
    from->dirs = g_ptr_array_new();
    to->base.has_wakeup |= from->base.has_wakeup;
    to->base.has_switch |= from->base.has_switch;
    to->base.gpu_ops |= from->base.gpu_ops;
    to->base.rejected += from->base.rejected;
    to->base.backwards += from->base.backwards;
    to->bytes += from->bytes;
    move_problems(to, from);
    ctf_read_add_vms(to, from);
    vg_recording_free(&from->base);
}

static struct ctf_recording *
find_clock(const GPtrArray *recordings, unsigned int first, const char *clock_key)
{
    for (unsigned int i = first; i < recordings->len; i++) {
        struct ctf_recording *recording = g_ptr_array_index(recordings, i);
        if (strcmp(recording->clock_key, clock_key) == 0)
            return recording;
    }
    return NULL;
}

/* Returns what distinguishes two traces: names, sizes and first bytes of their streams. */
static char *
fingerprint(const struct ctf_trace *trace)
{
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);

    for (unsigned int i = 0; i < trace->paths->len; i++) {
        const char *path = g_ptr_array_index(trace->paths, i);
        g_autofree char *name = g_path_get_basename(path);
        CTF_AUTO_FILE file = {.fd = -1};
        uint8_t head[CTF_HEAD_SIZE] = {0};
        if (ctf_file_open(&file, path, NULL) < 0 || pread(file.fd, head, sizeof(head), 0) < 0)
            return g_strdup(trace->dir);
        g_checksum_update(checksum, (const guchar *)name, (gssize)strlen(name) + 1);
        g_checksum_update(checksum, (const guchar *)&file.size, sizeof(file.size));
        g_checksum_update(checksum, head, sizeof(head));
    }
    return g_strdup(g_checksum_get_string(checksum));
}

/* Adds one opened directory to the recording with its clock, or sets it aside without one. */
static void
open_one(struct ctf_recording *recording, const char *dir, GPtrArray *recordings,
         unsigned int first, GHashTable *copies, GPtrArray *aside)
{
    const struct ctf_trace *trace = g_ptr_array_index(recording->traces, 0);
    g_autofree char *print = fingerprint(trace);
    const char *original = trace->paths->len > 0 ? g_hash_table_lookup(copies, print) : NULL;

    if (original)
        vg_recording_problem(&recording->base, dir, 0, "ignored: a copy of the trace in '%s'",
                             original);
    else
        g_hash_table_insert(copies, g_strdup(print), g_strdup(dir));
    if (original || !describe_recording(recording)) {
        if (recording->base.problems.list->len == 0)
            vg_recording_problem(&recording->base, dir, 0, "the trace has no stream with events");
        g_ptr_array_add(aside, recording);
        return;
    }
    struct ctf_recording *same = find_clock(recordings, first, recording->clock_key);
    if (same)
        absorb(same, recording);
    else
        g_ptr_array_add(recordings, recording);
}

int
vg_ctf_open(const struct vg_ctf_tree *tree, vg_aliases *aliases, GPtrArray *recordings,
            GError **err)
{
    unsigned int first = recordings->len;
    g_autoptr(GHashTable) copies = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    g_autoptr(GPtrArray) aside = g_ptr_array_new_with_free_func((GDestroyNotify)vg_recording_free);
    /* Use one table: streams are merged after events were read. */
    g_autoptr(vg_names) names = vg_names_new();

    for (unsigned int i = 0; i < tree->dirs->len; i++) {
        const char *dir = g_ptr_array_index(tree->dirs, i);
        open_one(open_trace(dir, names, aliases), dir, recordings, first, copies, aside);
    }
    if (recordings->len == first && aside->len > 0) {
        const struct ctf_recording *recording = g_ptr_array_index(aside, 0);
        const GPtrArray *problems = recording->base.problems.list;
        const struct vg_trace_problem *problem = g_ptr_array_index(problems, problems->len - 1);
        return vg_error(err, VG_E_INVALID, "nothing in trace '%s' can be read: %s: %s",
                        recording->base.name, problem->file, problem->what);
    }
    if (recordings->len == first)
        return 0;
    struct ctf_recording *leader = g_ptr_array_index(recordings, first);
    for (unsigned int i = 0; i < aside->len; i++)
        move_problems(leader, g_ptr_array_index(aside, i));
    for (unsigned int i = 0; i < tree->troubles->len; i++) {
        const struct vg_trace_problem *trouble = g_ptr_array_index(tree->troubles, i);
        vg_recording_problem(&leader->base, trouble->file, trouble->offset, "%s", trouble->what);
    }
    return 0;
}

/* ---- reading ---- */

static int
next_event(vg_recording *base, struct vg_event *ret_event, GError **err)
{
    struct ctf_recording *recording = (struct ctf_recording *)base;

    (void)err;
    if (!recording->merge)
        recording->merge = ctf_merge_new(base, recording->streams);
    if (!ctf_merge_next(recording->merge, ret_event))
        return 0;
    if (ret_event->type != VG_EVENT_LOST && ++base->events % EVENTS_PER_RELEASE == 0)
        ctf_memory_release(recording->dirs);
    return 1;
}

static double
progress(const vg_recording *base)
{
    const struct ctf_recording *recording = (const struct ctf_recording *)base;
    int64_t done = 0;

    for (unsigned int i = 0; i < recording->streams->len; i++)
        done += ctf_stream_position(g_ptr_array_index(recording->streams, i));
    return recording->bytes > 0 ? MIN(1.0, (double)done / (double)recording->bytes) : 1.0;
}

static void
recording_free(vg_recording *base)
{
    struct ctf_recording *recording = (struct ctf_recording *)base;

    ctf_merge_free(recording->merge);
    g_ptr_array_unref(recording->streams);
    g_ptr_array_unref(recording->traces);
    g_ptr_array_unref(recording->dirs);
    g_free(recording->clock_key);
    vg_recording_clear(base);
    g_free(recording);
}
