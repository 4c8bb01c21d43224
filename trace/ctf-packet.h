/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the packets of a CTF stream file and their sizes. babeltrace2 decodes them; this code
 * knows only what all tracers have in common. A packet starts with CTF's magic number and the
 * trace's UUID, and its header contains its size, which leads to the next packet. The position of
 * the size is known for LTTng, perf and babeltrace2, and is learnt from the files for others. One
 * thread at a time.
 */
#ifndef VG_TRACE_CTF_PACKET_H
#define VG_TRACE_CTF_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#define CTF_MAGIC_SIZE 4
#define CTF_UUID_SIZE  16
#define CTF_UUIDS_MAX  8
#define CTF_UNKNOWN_AT (-1)

/* Maximum size of a packet's header and context, which contain the packet's sizes. */
#define CTF_HEAD_SIZE 256

/* The start of the packets of one trace. */
struct ctf_layout {
    uint8_t uuids[CTF_UUIDS_MAX][CTF_UUID_SIZE]; /* from the metadata; if none, packets have only
                                                    the magic number */
    unsigned int n_uuids;
    bool has_sizes; /* the metadata defines packet sizes; otherwise a file is one packet */
    /* Positions in a packet, of 8 bytes each, or CTF_UNKNOWN_AT. */
    int size_at;     /* of the packet, in bits */
    int content_at;  /* size of the content, in bits */
    int times_at;    /* start time, then end time */
    int seq_at;      /* number of the packet in its stream */
    bool lacks_mark; /* the metadata is text without the first line that identifies it */
};

/* An open stream file. */
struct ctf_file {
    int fd;
    int64_t size;
};

/* The contents of a packet's header. */
struct ctf_head {
    uint8_t bytes[CTF_HEAD_SIZE];
    size_t length; /* less than CTF_HEAD_SIZE at the end of the file */
    bool big_endian;
    int64_t packet_size;  /* bytes; 0 if not stated or impossible */
    int64_t content_size; /* bytes; 0 as above */
    bool has_times;
    uint64_t begin, end; /* clock values; end is 0 if not stated */
    uint64_t seq;        /* number of earlier packets in its stream; 0 also if not stated */
    bool sane;           /* the values are consistent and plausible */
};

/* Returns whether these CTF_MAGIC_SIZE bytes start a packet, in either byte order. */
bool ctf_has_magic(const uint8_t *bytes);

/* The caller closes ret. Fails with VG_E_IO etc., naming the path. */
int ctf_file_open(struct ctf_file *ret, const char *path, GError **err);
void ctf_file_close(struct ctf_file *file);

#define CTF_AUTO_FILE __attribute__((cleanup(ctf_file_close))) struct ctf_file

/* Learns the layout from the metadata and all stream files (paths) of a directory. */
void ctf_layout_learn(struct ctf_layout *layout, const char *dir, const GPtrArray *paths);

/* Reads the header of the packet at offset. Returns false if it is not the start of a packet. */
bool ctf_head_read(const struct ctf_layout *layout, const struct ctf_file *file, int64_t offset,
                   struct ctf_head *ret);

/* Returns the offset of the first packet start at or after from and before limit, or limit. */
int64_t ctf_find_start(const struct ctf_layout *layout, const struct ctf_file *file, int64_t from,
                       int64_t limit);

/* Returns whether the file consists entirely of sane packets. babeltrace2 must not get other
 * files: it loops indefinitely on a packet of size 0 and aborts on sizes beyond 2^63. */
bool ctf_file_is_sound(const struct ctf_layout *layout, const char *path);

/* CTF 1.8 text starts with this line. LTTng 2.14 omits it, but babeltrace2 requires it. */
#define CTF_METADATA_MARK "/* CTF 1.8 */\n"
bool ctf_metadata_lacks_mark(const char *text, size_t length);

/* Returns whether babeltrace2 can safely read this metadata: it never returns from packetised
 * metadata that is truncated inside a packet, and it cannot read CTF 2. Fails with VG_E_INVALID
 * and the offset in the message and in *ret_offset. */
int ctf_metadata_check(const char *path, int64_t *ret_offset, GError **err);

#endif
