/* SPDX-License-Identifier: Apache-2.0
 *
 * Giving babeltrace2 what is still readable of a damaged CTF stream file: runs of whole packets,
 * copied to files of their own in a private directory, beside the metadata.
 * One thread at a time.
 */
#ifndef VG_TRACE_CTF_REPAIR_H
#define VG_TRACE_CTF_REPAIR_H

#include "trace/ctf-packet.h"

/* A run handed out is not longer than this (but at least one packet), to bound disk use. */
#define CTF_SEGMENT_MAX INT64_C(67108864)

/* A run of packets inside a stream file. */
struct ctf_segment {
    int64_t offset;
    int64_t length; /* bytes of the file */
    int64_t padded; /* bytes to hand out: more than length when the file is cut in the packet */
    bool complete;  /* every event of the run is there; a cut took padding at most */
};

/* The next run of packets at or after from. 1 and *ret; 0 if nothing readable follows; -1 if the
 * file cannot be read. */
int ctf_segment_next(const struct ctf_layout *layout, const char *path, int64_t from,
                     struct ctf_segment *ret, GError **err);

/* 0 if it cannot be told. */
int64_t ctf_file_size(const char *path);

/* Makes a private directory with dir's metadata. The caller frees the name and removes the
 * directory with ctf_private_dir_remove(); between the two, signals that end the process are held
 * back in this thread.
 * For old LTTng, babeltrace2 mends packets whose last event lies after their end; for this it
 * decodes every packet when a trace is opened, and one bad packet makes it refuse the trace. In a
 * directory for damaged packets (mend false) it does not recognise LTTng and leaves that be. */
char *ctf_private_dir_new(const char *dir, bool mend, GError **err);
int ctf_private_dir_link(const char *private_dir, const char *path, GError **err);
int ctf_private_dir_copy(const char *private_dir, const char *path,
                         const struct ctf_segment *segment, GError **err);
void ctf_private_dir_remove(const char *private_dir);

/* What babeltrace2 says of the private directory holds for the trace that stands behind it: names
 * that one in the error's message. */
void ctf_private_dir_name_original(GError *error, const char *private_dir, const char *dir);

#endif
