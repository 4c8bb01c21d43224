/* SPDX-License-Identifier: Apache-2.0
 *
 * Extracts the readable parts of a damaged CTF stream file for babeltrace2: runs of whole packets,
 * copied to separate files in a private directory, together with the metadata. One thread at a
 * time.
 */
#ifndef VG_TRACE_CTF_REPAIR_H
#define VG_TRACE_CTF_REPAIR_H

#include "trace/ctf-packet.h"

/* Maximum size of a run, but at least one packet, to limit disk use. */
#define CTF_SEGMENT_MAX INT64_C(67108864)

/* A run of packets inside a stream file. */
struct ctf_segment {
    int64_t offset;
    int64_t length; /* bytes of the file */
    int64_t
        padded; /* bytes to write: more than length when the file is truncated inside the packet */
    bool complete; /* every event of the run is present; at most padding was truncated */
};

/* Finds the next run of packets at or after from. Returns 1 and *ret, 0 if nothing readable
 * follows, or -1 if the file cannot be read. */
int ctf_segment_next(const struct ctf_layout *layout, const char *path, int64_t from,
                     struct ctf_segment *ret, GError **err);

/* Returns 0 if the size cannot be determined. */
int64_t ctf_file_size(const char *path);

/* Creates a private directory with dir's metadata. The caller frees the name and removes the
 * directory with ctf_private_dir_remove(). Until then, this thread blocks signals that end the
 * process.
 *
 * For old LTTng, babeltrace2 corrects packets whose last event is after their end. To do so it
 * decodes every packet when it opens a trace, and rejects the trace if one is bad. With mend
 * false, for damaged packets, the directory hides from babeltrace2 that LTTng wrote the trace,
 * which disables this. */
char *ctf_private_dir_new(const char *dir, bool mend, GError **err);
int ctf_private_dir_link(const char *private_dir, const char *path, GError **err);
int ctf_private_dir_copy(const char *private_dir, const char *path,
                         const struct ctf_segment *segment, GError **err);
void ctf_private_dir_remove(const char *private_dir);

/* Replaces the private directory's name with the original trace's in an error message of
 * babeltrace2. */
void ctf_private_dir_name_original(GError *error, const char *private_dir, const char *dir);

#endif
