/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the packets of a CTF stream file begin and how long they say they are. Decoding is
 * babeltrace2's; this only knows what all tracers do alike: a packet begins with CTF's magic number
 * and the trace's UUID, and somewhere in its head stands its size, which leads to the next packet.
 * Where exactly is known for LTTng, perf and babeltrace2, and learnt from the files for others.
 * One thread at a time.
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

/* Header and context of a packet fit in this; the sizes stand somewhere in them. */
#define CTF_HEAD_SIZE 256

/* How the packets of one trace begin. */
struct ctf_layout {
    uint8_t uuids[CTF_UUIDS_MAX][CTF_UUID_SIZE]; /* named in the metadata; none: magic only */
    unsigned int n_uuids;
    bool has_sizes; /* the metadata knows of packet sizes; else a file is one packet */
    /* Where in a packet they stand, each 8 bytes, or CTF_UNKNOWN_AT. */
    int size_at;     /* of the packet, in bits */
    int content_at;  /* size of the content, in bits */
    int times_at;    /* begin, then end */
    int seq_at;      /* number of the packet in its stream */
    bool lacks_mark; /* the metadata is text without the first line that says so */
};

/* A stream file, open. */
struct ctf_file {
    int fd;
    int64_t size;
};

/* What the head of one packet says. */
struct ctf_head {
    uint8_t bytes[CTF_HEAD_SIZE];
    size_t length; /* less than CTF_HEAD_SIZE near the end of the file */
    bool big_endian;
    int64_t packet_size;  /* bytes; 0: not told, or nothing that can be a size */
    int64_t content_size; /* bytes; 0 likewise */
    bool has_times;
    uint64_t begin, end; /* clock values; end 0: not told */
    uint64_t seq; /* how many packets of its stream there were before; 0 also where that is not
                   * told */
    bool sane;    /* nothing in it contradicts the rest or is beyond all measure */
};

/* Do these CTF_MAGIC_SIZE bytes begin a packet, of either byte order? */
bool ctf_has_magic(const uint8_t *bytes);

/* ret is to be closed; VG_E_IO and so on, naming the path. */
int ctf_file_open(struct ctf_file *ret, const char *path, GError **err);
void ctf_file_close(struct ctf_file *file);

#define CTF_AUTO_FILE __attribute__((cleanup(ctf_file_close))) struct ctf_file

/* Looks at the metadata and at all stream files (paths) of a directory. */
void ctf_layout_learn(struct ctf_layout *layout, const char *dir, const GPtrArray *paths);

/* Reads the head of the packet at offset; false if no packet begins there. */
bool ctf_head_read(const struct ctf_layout *layout, const struct ctf_file *file, int64_t offset,
                   struct ctf_head *ret);

/* Offset of the first packet start at or after from and before limit, or limit. */
int64_t ctf_find_start(const struct ctf_layout *layout, const struct ctf_file *file, int64_t from,
                       int64_t limit);

/* Whether sane packets follow each other from the beginning of the file to its end. babeltrace2
 * must not see other files: it loops for ever on a packet of size 0 and aborts on sizes beyond
 * 2^63. */
bool ctf_file_is_sound(const struct ctf_layout *layout, const char *path);

/* Text of CTF 1.8 begins with this; LTTng 2.14 leaves it out, and babeltrace2 insists on it. */
#define CTF_METADATA_MARK "/* CTF 1.8 */\n"
bool ctf_metadata_lacks_mark(const char *text, size_t length);

/* Whether babeltrace2 can be given this metadata: it never returns from packetised metadata that is
 * cut in a packet, and CTF 2 is not read. VG_E_INVALID with the offset in the
 * message and in *ret_offset. */
int ctf_metadata_check(const char *path, int64_t *ret_offset, GError **err);

#endif
