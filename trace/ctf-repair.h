/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding what is still readable in a damaged CTF stream file. Decoding stays babeltrace2's: this
 * only knows where packets begin (magic number and trace UUID) and how long they say they are, and
 * hands out runs of whole packets as files of their own in a private directory, beside a link to
 * the metadata.
 */
#ifndef VG_TRACE_CTF_REPAIR_H
#define VG_TRACE_CTF_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#define CTF_UUID_SIZE  16
#define CTF_UUIDS_MAX  8
#define CTF_UNKNOWN_AT (-1)

/* A run handed out is not longer than this (but at least one packet), to bound disk use. */
#define CTF_SEGMENT_MAX INT64_C(67108864)

/* How the packets of one trace begin. */
struct ctf_layout {
    uint8_t uuids[CTF_UUIDS_MAX][CTF_UUID_SIZE]; /* named in the metadata; none: magic only */
    unsigned int n_uuids;
    int size_at; /* where in a packet its size in bits stands, or CTF_UNKNOWN_AT */
};

/* A run of packets inside a stream file. */
struct ctf_segment {
    int64_t offset;
    int64_t length; /* bytes of the file */
    int64_t padded; /* bytes to hand out: more than length when the file is cut in the packet */
    bool complete;  /* every event of the run is there; a cut took padding at most */
};

/* Looks at the metadata and at all stream files of a directory (paths). */
void ctf_layout_learn(struct ctf_layout *layout, const char *dir, const GPtrArray *paths);

/* The next run of packets at or after from. 1 and *ret; 0 if nothing readable follows; -1 if the
 * file cannot be read. */
int ctf_segment_next(const struct ctf_layout *layout, const char *path, int64_t from,
                     struct ctf_segment *ret, GError **err);

/* Bytes of the packet that begins at offset, 0 if it cannot be told. fd may be negative. */
int64_t ctf_packet_length(const struct ctf_layout *layout, int fd, int64_t offset);

/* Clock values at which the packet at offset says that it begins and ends; false if that cannot be
 * told. LTTng and perf write both right before the sizes. */
bool ctf_packet_times(const struct ctf_layout *layout, int fd, int64_t offset, uint64_t *ret_begin,
                      uint64_t *ret_end);

/* 0 if it cannot be told. */
int64_t ctf_file_size(const char *path);

/* Makes a private directory with a link to dir's metadata. The caller frees the name and removes
 * the directory with ctf_private_dir_remove(). */
char *ctf_private_dir_new(const char *dir, GError **err);
int ctf_private_dir_link(const char *private_dir, const char *path, GError **err);
int ctf_private_dir_copy(const char *private_dir, const char *path,
                         const struct ctf_segment *segment, GError **err);
void ctf_private_dir_remove(const char *private_dir);

#endif
