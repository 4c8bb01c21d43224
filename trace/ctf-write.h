/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a CTF 1.8 trace with one stream, in LTTng's form with the contexts pid, tid and procname,
 * for vgpuctl and any CTF viewer. Records are requested one by one, and only one packet is in
 * memory, however long the trace is. The same plan and records produce the same bytes. Any thread;
 * concurrent calls must not share a plan.
 */
#ifndef VG_TRACE_CTF_WRITE_H
#define VG_TRACE_CTF_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#define VG_CTF_FIELDS_MAX 16

/* Maximum size of a record, including its header, contexts and string terminators. */
#define VG_CTF_RECORD_BYTES_MAX 16384

enum vg_ctf_kind {
    VG_CTF_U8,
    VG_CTF_U16,
    VG_CTF_U32,
    VG_CTF_U64,
    VG_CTF_S32,
    VG_CTF_S64,
    VG_CTF_STRING,
    VG_CTF_KIND_MAX
};

struct vg_ctf_field {
    const char *name; /* a C identifier, which may be a C keyword */
    enum vg_ctf_kind kind;
};

/* A class of records. A class without records is not in the trace. */
struct vg_ctf_class {
    const char *name;
    const struct vg_ctf_field *fields; /* ends with an entry whose name is NULL */
};

struct vg_ctf_value {
    union {
        uint64_t u;
        int64_t s;
        const char *text; /* UTF-8 */
    };
};

/* Texts are borrowed until the next record is requested. */
struct vg_ctf_record {
    unsigned int class;
    int64_t ts_ns; /* raw clock, 0..VG_TIME_MAX - 1, not before the previous record */
    int32_t tid, pid;
    const char *procname; /* UTF-8; NULL is written as an empty text */
    struct vg_ctf_value values[VG_CTF_FIELDS_MAX];
    uint64_t lost; /* records dropped directly before this record */
};

/* name: a unique identifier that is not a TSDL keyword; text: UTF-8. */
struct vg_ctf_env {
    const char *name;
    const char *text;
};

struct vg_ctf_plan {
    const struct vg_ctf_class *classes;
    size_t n_classes;
    /* The complete environment. Together with clock_offset_ns it determines the UUID of the clock.
     * Recordings whose clocks have the same UUID are merged when they are read together, so it
     * must differ in traces that are to remain separate. */
    const struct vg_ctf_env *env;
    size_t n_env;
    int64_t clock_offset_ns; /* raw clock + offset = epoch; 0 if the clock has no epoch */
    /* Returns 1 and *ret, which is passed in zeroed; 0 at the end; -1 and *err to abort. */
    int (*next)(void *data, struct vg_ctf_record *ret, GError **err);
    void *data;
};

/* Creates dir if its parent exists. An existing dir must be empty, otherwise fails with
 * VG_E_CONFLICT. The trace appears in dir only when it is complete. Fails with VG_E_INVALID,
 * naming the part, for anything that a trace cannot represent. After a failure, dir is
 * unchanged. */
int vg_ctf_write(const char *dir, const struct vg_ctf_plan *plan, GError **err);

#endif
