/* SPDX-License-Identifier: Apache-2.0
 *
 * Records described by data: one table per struct names its members. Records are created, freed,
 * copied, read, written and hashed according to their table. These functions do not touch members
 * that the table does not name, so a struct may have private members (initially zero; zero in
 * copies).
 *
 * Every container member is allocated for the lifetime of its record, so that readers need no NULL
 * checks: strings may be NULL, arrays never are. A record belongs to one thread until it no longer
 * changes; then any number of threads may read it.
 */
#ifndef VG_BASE_RECORD_H
#define VG_BASE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "base/json.h"

enum vg_field_type {
    VG_FIELD_STRING, /* char *, owned, may be NULL; min and max are bytes */
    VG_FIELD_INT64,  /* int64_t */
    VG_FIELD_DOUBLE, /* double */
    VG_FIELD_BOOL,   /* bool */
    VG_FIELD_ENUM,   /* int, index into names */
    /* GPtrArray of char *; min is the maximum number of bytes in a string, max the maximum number
       of strings */
    VG_FIELD_STRINGS,
    VG_FIELD_INTS,    /* GArray of int32_t; each 0..min; max is the maximum number of items */
    VG_FIELD_DOUBLES, /* GArray of double; each 0..min; max is the maximum number of items */
    VG_FIELD_RECORD,  /* the struct itself, in place */
    VG_FIELD_RECORDS, /* GPtrArray of records; max is the maximum number of records */
    VG_FIELD_TYPE_MAX
};

enum {
    VG_FIELD_REQUIRED = 1 << 0, /* absent or null is an error; others keep their zero value */
    VG_FIELD_OMIT = 1 << 1,     /* not written when NULL, 0, false or empty */
    VG_FIELD_FACT = 1 << 2,     /* a part of the hash of facts, see vg_record_hash() */
    VG_FIELD_READ = 1 << 3,     /* read only: neither written nor hashed */
};

struct vg_record_type;

struct vg_field {
    const char *name; /* the name in JSON */
    enum vg_field_type type;
    size_t offset;
    unsigned flags;
    double min;
    double max; /* at most 2^62 for an INT64, which a double holds exactly */
    const char *const *names;
    const struct vg_record_type *record; /* RECORD, RECORDS */
};

struct vg_record_type {
    size_t size;
    const struct vg_field *fields;
    size_t n_fields;
    size_t present; /* offset of a uint64_t, a bit for each row; 0 if the struct has none */
};

/* Entries of tables, for members of struct THIS, which is defined before each table. A member's
 * name is its name in JSON, except with VG_ROW_NAMED. enum vg_field_type describes min and max. */
#define VG_ROW_NAMED(name, type, member, flags, min, max, names, record)                           \
 {                                                                                                 \
  name, type, offsetof(struct THIS, member), flags, min, max, names, record                        \
 }
#define VG_ROW(type, member, flags, min, max, record)                                              \
 VG_ROW_NAMED(#member, type, member, flags, min, max, NULL, record)
#define VG_ROW_STRING(member, flags, min, max)                                                     \
 VG_ROW(VG_FIELD_STRING, member, flags, min, max, NULL)
#define VG_ROW_INT(member, flags, min, max) VG_ROW(VG_FIELD_INT64, member, flags, min, max, NULL)
#define VG_ROW_DOUBLE(member, flags, min, max)                                                     \
 VG_ROW(VG_FIELD_DOUBLE, member, flags, min, max, NULL)
#define VG_ROW_BOOL(member, flags) VG_ROW(VG_FIELD_BOOL, member, flags, 0, 0, NULL)
#define VG_ROW_ENUM(name, member, flags, names)                                                    \
 VG_ROW_NAMED(name, VG_FIELD_ENUM, member, flags, 0, 0, names, NULL)
#define VG_ROW_STRINGS(member, flags, bytes, max)                                                  \
 VG_ROW(VG_FIELD_STRINGS, member, flags, bytes, max, NULL)
#define VG_ROW_INTS(member, flags, highest, max)                                                   \
 VG_ROW(VG_FIELD_INTS, member, flags, highest, max, NULL)
#define VG_ROW_DOUBLES(member, flags, highest, max)                                                \
 VG_ROW(VG_FIELD_DOUBLES, member, flags, highest, max, NULL)
#define VG_ROW_PART(member, flags, record) VG_ROW(VG_FIELD_RECORD, member, flags, 0, 0, record)
#define VG_ROW_LIST(member, flags, max, record)                                                    \
 VG_ROW(VG_FIELD_RECORDS, member, flags, 0, max, record)
#define VG_ROW_TYPE(fields)                                                                        \
 {                                                                                                 \
  sizeof(struct THIS), fields, G_N_ELEMENTS(fields), 0                                             \
 }
/* For a struct with a private member that records which members its document had. */
#define VG_ROW_TYPE_PRESENT(fields, member)                                                        \
 {                                                                                                 \
  sizeof(struct THIS), fields, G_N_ELEMENTS(fields), offsetof(struct THIS, member)                 \
 }

/* Creates a zeroed record with empty containers. */
void *vg_record_new(const struct vg_record_type *type);
void vg_record_free(const struct vg_record_type *type, void *record);
void vg_record_clear(const struct vg_record_type *type, void *record);

/* Removes and frees the records of a list from index n on. */
void vg_record_truncate(const struct vg_record_type *type, GPtrArray *list, guint n);
void *vg_record_copy(const struct vg_record_type *type, const void *record);

/* Reads a new record from an object. Members that the table does not name are ignored. Returns NULL
 * with VG_E_INVALID, which names the path of the first member that is missing, has the wrong type
 * or is out of range. */
void *vg_record_read(const struct vg_record_type *type, const struct vg_json_node *node,
                     GError **err);

/* Does the same as vg_record_read(), but reads the text of an object, in a fraction of the time and
 * memory. Returns NULL if the text is not plain JSON or vg_record_read() would refuse it.
 * vg_json_parse() and vg_record_read() then give the reason. max_depth counts nested objects and
 * arrays. */
void *vg_record_read_text(const struct vg_record_type *type, const char *text, size_t size,
                          int max_depth);

/* The first function stores which rows of the table a document had; the second returns whether it
 * had a member. Without the private member, the first does nothing and the second returns false. */
void vg_record_set_present(const struct vg_record_type *type, void *record, uint64_t rows);
bool vg_record_is_present(const struct vg_record_type *type, const void *record, const char *name);

/* Writes the members in the order of the table. Doubles are rounded as by vg_json_add_double(). */
json_object *vg_record_write(const struct vg_record_type *type, const void *record);

/* Adds the content to a checksum in a canonical form: in the order of the table and of the lists,
 * with doubles as they are written. So a record that was written and read back has the same hash.
 * facts_only: only members with VG_FIELD_FACT, and everything below them. */
void vg_record_hash(const struct vg_record_type *type, const void *record, bool facts_only,
                    GChecksum *checksum);

#endif
