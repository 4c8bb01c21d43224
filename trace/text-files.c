/* SPDX-License-Identifier: Apache-2.0
 *
 * The host is the first file with records of KVM, or of threads with QEMU's names for vCPUs. If
 * there is none, it is the first file. Another file is from the same kernel if one of its threads
 * is also one of the host's, by number and name. Threads with low numbers do not count, because
 * kernel threads have the same names in all kernels.
 */
#include "config.h"

#include "trace/text-files.h"

#include <string.h>

#define LOW_TIDS 300

/* The maximum number of threads stored per file. */
#define THREADS_MAX 65536

struct text_file {
    char *name;
    bool has_kvm;
    bool is_taken;
    GHashTable *threads; /* keys of threads */
    uint64_t lines;
};

struct vg_text_files {
    GArray *rows; /* struct text_file, in order of their first lines */
    /* If the text can be read only once: the recording for its problems; otherwise NULL. */
    vg_recording *recording;
    bool is_one; /* also for such a text: the first line has no name */
};

static void
text_file_clear(void *data)
{
    struct text_file *file = data;

    g_free(file->name);
    g_hash_table_unref(file->threads);
}

static struct text_file *
text_files_row(const struct vg_text_files *files, struct vg_text_span name)
{
    for (guint i = 0; i < files->rows->len; i++) {
        struct text_file *file = &g_array_index(files->rows, struct text_file, i);
        if (strlen(file->name) == name.len && memcmp(file->name, name.s, name.len) == 0)
            return file;
    }
    return NULL;
}

static struct text_file *
text_files_need(struct vg_text_files *files, struct vg_text_span name)
{
    struct text_file *file = text_files_row(files, name);

    if (file || files->rows->len == VG_TEXT_FILES_MAX)
        return file;
    struct text_file fresh = {.name = g_strndup(name.s, name.len),
                              .threads =
                                  g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL)};
    g_array_append_val(files->rows, fresh);
    return &g_array_index(files->rows, struct text_file, files->rows->len - 1);
}

/* Returns whether the name is like "CPU 0/KVM". */
static bool
text_files_is_vcpu(struct vg_text_span comm)
{
    return comm.len > 8 && memcmp(comm.s, "CPU ", 4) == 0 &&
           memcmp(comm.s + comm.len - 4, "/KVM", 4) == 0;
}

static void
text_files_learn(struct text_file *file, const struct vg_text_line *line)
{
    int64_t key = line->tid;

    file->lines++;
    file->has_kvm |= text_files_is_vcpu(line->comm) ||
                     (line->event.len > 4 && memcmp(line->event.s, "kvm_", 4) == 0);
    if (line->tid < LOW_TIDS || g_hash_table_size(file->threads) >= THREADS_MAX)
        return;
    for (size_t i = 0; i < line->comm.len; i++)
        key = (int64_t)((uint64_t)key * 16777619U + (uint8_t)line->comm.s[i]);
    if (!g_hash_table_contains(file->threads, &key))
        g_hash_table_add(file->threads, g_memdup2(&key, sizeof(key)));
}

static bool
text_files_share_thread(const struct text_file *a, const struct text_file *b)
{
    GHashTableIter iter;
    void *key;

    g_hash_table_iter_init(&iter, a->threads);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        if (g_hash_table_contains(b->threads, key))
            return true;
    }
    return false;
}

/* Finds the host and its files. Returns true if all files belong to it. */
static bool
text_files_decide(struct vg_text_files *files, vg_recording *recording)
{
    struct text_file *rows = (struct text_file *)(void *)files->rows->data;
    guint host = 0;
    bool all = true;

    while (host < files->rows->len && !rows[host].has_kvm)
        host++;
    if (host == files->rows->len)
        host = 0;
    for (guint i = 0; i < files->rows->len; i++) {
        rows[i].is_taken = i == host || text_files_share_thread(&rows[i], &rows[host]);
        if (!rows[i].is_taken)
            vg_recording_problem(recording, recording->name, 0,
                                 "%" G_GUINT64_FORMAT
                                 " lines are from '%s', a different machine than '%s', and are "
                                 "ignored; for their figures, convert that file separately",
                                 rows[i].lines, rows[i].name, rows[host].name);
        all &= rows[i].is_taken;
    }
    return all;
}

/* Reads all lines. Returns false if a line has no name: it is then from the kernel's main buffer,
 * and names are those of instances. */
static bool
text_files_read(struct vg_text_files *files, vg_text_lines *lines)
{
    struct vg_text_raw_line raw;
    struct vg_text_line line;
    bool in_loss = false;

    while (vg_text_lines_next(lines, &raw)) {
        enum vg_text_kind kind =
            raw.too_long ? VG_TEXT_UNKNOWN : vg_text_line_parse(raw.text, &line);
        const bool is_named = (kind == VG_TEXT_EVENT || kind == VG_TEXT_LOST) && line.label.len > 0;
        struct text_file *file = is_named ? text_files_need(files, line.label) : NULL;
        if (file && kind == VG_TEXT_EVENT)
            text_files_learn(file, &line);
        else if (kind == VG_TEXT_EVENT && !is_named && !in_loss)
            return false;
        in_loss = kind == VG_TEXT_LOST && is_named;
    }
    return true;
}

static bool
text_files_first_is_named(vg_text_lines *lines)
{
    struct vg_text_raw_line raw;
    struct vg_text_line line;

    while (vg_text_lines_next(lines, &raw)) {
        if (!raw.too_long && vg_text_line_parse(raw.text, &line) == VG_TEXT_EVENT)
            return line.label.len > 0;
    }
    return false;
}

/* Chooses the file of the first line if the text can be read only once. */
static const struct text_file *
text_files_meet(struct vg_text_files *files, struct vg_text_span name)
{
    struct text_file *file = text_files_row(files, name);

    if (file || !files->recording)
        return file;
    file = text_files_need(files, name);
    if (!file)
        return NULL;
    file->is_taken = files->is_one || files->rows->len == 1;
    if (!file->is_taken)
        vg_recording_problem(files->recording, files->recording->name, 0,
                             "lines of '%s' are ignored: whether it is the same machine as '%s' "
                             "can only be determined if the text is in a file",
                             file->name, g_array_index(files->rows, struct text_file, 0).name);
    return file;
}

struct vg_text_files *
vg_text_files_find(const vg_text_lines *lines, vg_recording *recording)
{
    g_autoptr(vg_text_lines) first = vg_text_lines_again(lines);
    g_autoptr(vg_text_lines) again = vg_text_lines_again(lines);

    if (first && again && !text_files_first_is_named(first))
        return NULL;
    struct vg_text_files *files = g_new0(struct vg_text_files, 1);
    files->rows = g_array_new(FALSE, TRUE, sizeof(struct text_file));
    g_array_set_clear_func(files->rows, text_file_clear);
    if (!first || !again)
        files->recording = recording;
    else if (!text_files_read(files, again) || text_files_decide(files, recording))
        g_clear_pointer(&files, vg_text_files_free);
    return files;
}

bool
vg_text_files_take(struct vg_text_files_at *at, enum vg_text_kind kind,
                   const struct vg_text_line *line)
{
    if (!at->files || (kind != VG_TEXT_EVENT && kind != VG_TEXT_LOST))
        return true;
    const struct text_file *file =
        line->label.len > 0 ? text_files_meet(at->files, line->label) : NULL;
    const bool is_taken = line->label.len > 0 ? file && file->is_taken : !at->skips_next;
    at->files->is_one |= line->label.len == 0 && at->files->rows->len == 0;
    at->skips_next = kind == VG_TEXT_LOST && !is_taken;
    return is_taken;
}

void
vg_text_files_free(struct vg_text_files *files)
{
    if (!files)
        return;
    g_array_unref(files->rows);
    g_free(files);
}
