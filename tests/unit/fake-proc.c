/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/unit/fake-proc.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib.h>

char *
fake_proc_new(void)
{
    g_autoptr(GError) err = NULL;
    char *path = g_dir_make_tmp("vg-proc-XXXXXX", &err);

    if (!path)
        fail_msg("%s", err->message);
    return path;
}

int
fake_proc_setup(void **state)
{
    *state = fake_proc_new();
    return 0;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void
fake_proc_remove(const char *path)
{
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fail_msg("cannot remove %s: %s", path, strerror(errno));
}

int
fake_proc_teardown(void **state)
{
    fake_proc_remove(*state);
    g_free(*state);
    return 0;
}

void
fake_proc_write(const char *path, const char *text, size_t size)
{
    /* Not emptied first: somebody may be reading, and the kernel never shows half a file. */
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, text, size) != (ssize_t)size || ftruncate(fd, (off_t)size) != 0 ||
        close(fd) != 0)
        fail_msg("cannot write %s", path);
}

static void
write_text(const char *dir, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(dir, name, NULL);

    fake_proc_write(path, text, strlen(text));
}

static void
write_stat(const char *dir, const struct fake_task *task, int threads)
{
    g_autoptr(GString) text = g_string_new(NULL);

    /* Fields 1 to 22, then zeros up to 38, the CPU, zeros up to 42, guest time, and the rest. */
    g_string_printf(
        text, "%d (%s) %c %d 1 1 0 -1 %d 10 0 0 0 %" PRIu64 " 0 %" PRIu64 " 0 20 0 %d 0 %" PRIu64,
        task->tid, task->comm, task->state ? task->state : 'S', task->parent ? task->parent : 1,
        /* PF_FORKNOEXEC or PF_KTHREAD of the children of kthreadd */
        task->parent == 2 ? 0x00200040 : 0x00000040, task->ticks, task->child_ticks, threads,
        task->start);
    for (int field = 23; field <= 38; field++)
        g_string_append(text, " 0");
    g_string_append_printf(text, " %d 0 0 0 %" PRIu64 " 0 0 0 0 0 0 0 0 0\n", task->cpu,
                           task->guest_ticks);
    write_text(dir, "stat", text->str);
}

void
fake_proc_process(const char *proc, int pid, const char *comm, uint64_t start, int threads,
                  const char *cmdline, size_t size)
{
    g_autofree char *dir = g_strdup_printf("%s/%d", proc, pid);
    g_autofree char *path = g_build_filename(dir, "cmdline", NULL);
    struct fake_task main_thread = {.pid = pid, .tid = pid, .comm = comm, .start = start};

    g_mkdir_with_parents(dir, 0700);
    write_stat(dir, &main_thread, threads);
    fake_proc_write(path, cmdline, size);
    fake_proc_task(proc, &main_thread);
}

void
fake_proc_child(const char *proc, int pid, int parent, const char *comm, uint64_t start)
{
    g_autofree char *dir = g_strdup_printf("%s/%d", proc, pid);

    fake_proc_process(proc, pid, comm, start, 1, comm, strlen(comm));
    write_stat(
        dir,
        &(struct fake_task){.pid = pid, .tid = pid, .comm = comm, .start = start, .parent = parent},
        1);
}

void
fake_proc_task(const char *proc, const struct fake_task *task)
{
    g_autofree char *dir = g_strdup_printf("%s/%d/task/%d", proc, task->pid, task->tid);
    g_autofree char *comm = g_strdup_printf("%s\n", task->comm);
    g_autofree char *sched = g_strdup_printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", task->run_ns,
                                             task->wait_ns, task->timeslices);
    g_autofree char *status =
        g_strdup_printf("Name:\t%s\nState:\tS (sleeping)\nvoluntary_ctxt_switches:\t%" PRIu64
                        "\nnonvoluntary_ctxt_switches:\t%" PRIu64 "\n",
                        task->comm, task->voluntary, task->nonvoluntary);

    g_mkdir_with_parents(dir, 0700);
    write_text(dir, "comm", comm);
    write_text(dir, "schedstat", sched);
    write_text(dir, "status", status);
    write_stat(dir, task, 1);
}
