/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a CTF 1.8 trace of one stream, as LTTng records with the contexts pid, tid and procname:
 * what vgpuctl and any viewer of CTF read. Records are asked for one by one; what is
 * kept of them is one packet, however long the trace. The same plan and records give the same
 * bytes.
 * Any thread; one call may not share its plan with another.
 */
#ifndef VG_TRACE_CTF_WRITE_H
#define VG_TRACE_CTF_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#define VG_CTF_FIELDS_MAX 16

/* Of one record, with its header, contexts and the ends of its strings. */
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
    const char *name; /* an identifier of C; may be one of its keywords */
    enum vg_ctf_kind kind;
};

/* Of records. A class that no record has is not in the trace. */
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

/* Texts are borrowed until the next record is asked for. */
struct vg_ctf_record {
    unsigned int class;
    int64_t ts_ns; /* raw clock, 0..VG_TIME_MAX - 1, not before the record before it */
    int32_t tid, pid;
    const char *procname; /* UTF-8; NULL: empty */
    struct vg_ctf_value values[VG_CTF_FIELDS_MAX];
    uint64_t lost; /* records that were dropped right before this one */
};

/* name: an identifier, none of TSDL's words, once; text: UTF-8. */
struct vg_ctf_env {
    const char *name;
    const char *text;
};

struct vg_ctf_plan {
    const struct vg_ctf_class *classes;
    size_t n_classes;
    /* All of it; nothing is added. It is also what the UUID of the clock is made of, together with
     * clock_offset_ns: recordings whose clocks have one UUID are merged when they are read
     * together, so traces that shall stay apart must differ in it. */
    const struct vg_ctf_env *env;
    size_t n_env;
    int64_t clock_offset_ns; /* raw clock + offset = epoch; 0: the clock has no epoch */
    /* 1 and *ret, which is handed in zeroed; 0 at the end; -1 and *err to give up. */
    int (*next)(void *data, struct vg_ctf_record *ret, GError **err);
    void *data;
};

/* dir is made if its parent is there; it may exist if it is empty, else VG_E_CONFLICT. The trace is
 * in it when it is whole, and not before. What a trace cannot say is VG_E_INVALID, naming it. After
 * any failure dir is as it was. */
int vg_ctf_write(const char *dir, const struct vg_ctf_plan *plan, GError **err);

#endif
