/* SPDX-License-Identifier: Apache-2.0
 *
 * The main of a fuzz target that is built without libFuzzer: runs the target over its corpus, one
 * TAP line per file. Arguments name other files or directories to run instead.
 */
#include "config.h"

#ifndef VG_LIBFUZZER

# include <dirent.h>
# include <stdbool.h>
# include <stdint.h>
# include <stdio.h>
# include <stdlib.h>
# include <string.h>
# include <sys/stat.h>

# include <glib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds a file, or the files of a directory in the order of their names. */
static bool
add_path(GPtrArray *files, const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return false;
    if (!S_ISDIR(st.st_mode)) {
        g_ptr_array_add(files, g_strdup(path));
        return true;
    }
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] != '.')
            g_ptr_array_add(names, g_build_filename(path, entry->d_name, NULL));
    }
    closedir(dir);
    g_ptr_array_sort(names, compare_names);
    for (unsigned int i = 0; i < names->len; i++)
        g_ptr_array_add(files, g_ptr_array_index(names, i));
    return names->len > 0;
}

static char *
corpus_of(const char *program)
{
    g_autofree char *base = g_path_get_basename(program);
    const char *name = g_str_has_prefix(base, "fuzz-") ? base + strlen("fuzz-") : base;
    const char *srcdir = getenv("VG_SRCDIR");

    return g_build_filename(srcdir ? srcdir : ".", "tests", "fuzz", "corpus", name, NULL);
}

/* Hands over a copy of exactly the file's size, so that a read past its end can be seen. */
static bool
run_file(const char *path)
{
    g_autofree char *text = NULL;
    size_t size;

    if (!g_file_get_contents(path, &text, &size, NULL))
        return false;
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        return false;
    memcpy(exact, text, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return true;
}

int
main(int argc, char **argv)
{
    g_autoptr(GPtrArray) files = g_ptr_array_new_with_free_func(g_free);
    g_autofree char *corpus = corpus_of(argv[0]);
    bool good = true;

    for (int i = 1; i < argc; i++) {
        if (!add_path(files, argv[i])) {
            printf("Bail out! no input in '%s'\n", argv[i]);
            return 1;
        }
    }
    if (argc < 2 && !add_path(files, corpus)) {
        printf("Bail out! no corpus in '%s' (VG_SRCDIR names the source tree)\n", corpus);
        return 1;
    }
    printf("1..%u\n", files->len);
    for (unsigned int i = 0; i < files->len; i++) {
        const char *path = g_ptr_array_index(files, i);
        /* Before the run: a crash is the last file named. */
        printf("# %s\n", path);
        fflush(stdout);
        bool ok = run_file(path);
        g_autofree char *base = g_path_get_basename(path);
        printf("%s %u - %s\n", ok ? "ok" : "not ok", i + 1, base);
        good = good && ok;
    }
    return good ? 0 : 1;
}

#else

/* libFuzzer brings its own; ISO C wants something in every file. */
typedef int vg_replay_main_is_not_used;

#endif
