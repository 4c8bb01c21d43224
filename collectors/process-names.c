/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/process-names.h"

#include <stdio.h>
#include <string.h>

#include "host/proc-text.h"

/* Processes that nobody asked about for this many rounds are forgotten. Known processes are read
 * again after READ_ROUNDS. */
#define FORGET_ROUNDS 10
#define READ_ROUNDS   60

struct known {
    char comm[VG_COMM_LEN];
    char cgroup[VG_CGROUP_LEN];
    uint64_t read; /* the round of the last reading */
    uint64_t used;
};

struct vg_process_names {
    char *proc;
    GHashTable *known; /* pid -> struct known */
    uint64_t round;
};

vg_process_names *
vg_process_names_new(const char *proc)
{
    vg_process_names *names = g_new0(vg_process_names, 1);

    names->proc = g_strdup(proc);
    names->known = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return names;
}

void
vg_process_names_free(vg_process_names *names)
{
    if (!names)
        return;
    g_hash_table_unref(names->known);
    g_free(names->proc);
    g_free(names);
}

/* Reads a name that the programs saw. Returns false if another process has its place, or none. */
static bool
read_seen(const struct vg_bpf_name *seen, int32_t pid, char comm[VG_COMM_LEN])
{
    const struct vg_bpf_name *name = &seen[(uint32_t)pid % VG_BPF_NAMES];
    uint64_t words[VG_BPF_COMM_LEN / 8];
    char text[VG_BPF_COMM_LEN + 1] = "";

    if (__atomic_load_n(&name->pid, __ATOMIC_ACQUIRE) != pid)
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
        words[i] = __atomic_load_n(&name->comm[i], __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&name->pid, __ATOMIC_RELAXED) != pid)
        return false;
    memcpy(text, words, sizeof(words));
    g_strlcpy(comm, text, VG_COMM_LEN);
    return comm[0] != '\0';
}

static void
read_proc(const vg_process_names *names, int32_t pid, struct known *known)
{
    char path[64 + VG_PROC_TEXT_MAX];
    char text[VG_PROC_TEXT_MAX];
    struct vg_proc_stat stat;

    snprintf(path, sizeof(path), "%s/%d/stat", names->proc, pid);
    if (vg_proc_read(path, text, sizeof(text)) > 0 && vg_proc_parse_stat(text, &stat))
        g_strlcpy(known->comm, stat.comm, sizeof(known->comm));
    snprintf(path, sizeof(path), "%s/%d/cgroup", names->proc, pid);
    if (vg_proc_read(path, text, sizeof(text)) > 0)
        vg_proc_parse_cgroup(text, known->cgroup, sizeof(known->cgroup));
}

void
vg_process_names_fill(vg_process_names *names, const struct vg_bpf_name *seen,
                      struct vg_lost_process *process)
{
    void *key = GINT_TO_POINTER(process->pid);
    struct known *known = g_hash_table_lookup(names->known, key);
    char comm[VG_COMM_LEN] = "";
    bool was_seen = read_seen(seen, process->pid, comm);
    bool is_another = known && was_seen && strcmp(known->comm, comm) != 0;

    if (!known || is_another || names->round - known->read > READ_ROUNDS) {
        struct known fresh = {.read = names->round};
        read_proc(names, process->pid, &fresh);
        if (was_seen)
            g_strlcpy(fresh.comm, comm, sizeof(fresh.comm));
        /* The previous text of a process that has exited is still right. */
        if (known && !is_another && !fresh.cgroup[0])
            g_strlcpy(fresh.cgroup, known->cgroup, sizeof(fresh.cgroup));
        known = g_memdup2(&fresh, sizeof(fresh));
        g_hash_table_insert(names->known, key, known);
    }
    known->used = names->round;
    g_strlcpy(process->comm, known->comm, sizeof(process->comm));
    g_strlcpy(process->cgroup, known->cgroup, sizeof(process->cgroup));
}

void
vg_process_names_settle(vg_process_names *names)
{
    GHashTableIter iter;
    void *value;

    names->round++;
    g_hash_table_iter_init(&iter, names->known);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        if (names->round - ((const struct known *)value)->used > FORGET_ROUNDS)
            g_hash_table_iter_remove(&iter);
    }
}
