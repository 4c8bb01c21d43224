/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a CTF stream file beside good metadata: no crash, no hang, and the events that come
 * out are in order and in range. Slow for a fuzzer, because each input is a trace directory.
 */
#include "config.h"

#include <stdlib.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "tests/fuzz/check-event.h"
#include "trace/open.h"
#include "trace/recording.h"

static void
read_all(vg_recording *recording)
{
    struct vg_event event;
    int64_t last_ns = 0;

    while (vg_recording_next(recording, &event, NULL) == 1) {
        check_event(&event);
        require(event.ts_ns >= last_ns);
        last_ns = event.ts_ns;
        double progress = vg_recording_progress(recording);
        require(progress >= 0 && progress <= 1);
    }
}

/* The metadata of the demo recording, whose streams are the seeds. */
static char *
metadata_path(void)
{
    const char *root = getenv("VG_SRCDIR");

    return g_build_filename(root ? root : ".", "data/demo/inner-host-3vms/lttng-kernel/kernel",
                            "metadata", NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autofree char *dir = g_dir_make_tmp("vgpud-fuzz-XXXXXX", NULL);
    g_autofree char *metadata = metadata_path();
    g_autofree char *link = g_build_filename(dir, "metadata", NULL);
    g_autofree char *stream = g_build_filename(dir, "stream", NULL);
    const char *const paths[] = {dir};
    g_autofree char *absolute = g_canonicalize_filename(metadata, NULL);

    require(dir && g_file_test(absolute, G_FILE_TEST_EXISTS));
    require(symlink(absolute, link) == 0);
    require(g_file_set_contents(stream, (const char *)data, (gssize)size, NULL));
    g_autoptr(GPtrArray) recordings = vg_recordings_open(paths, 1, NULL, NULL);
    for (unsigned int i = 0; recordings && i < recordings->len; i++)
        read_all(g_ptr_array_index(recordings, i));
    g_unlink(stream);
    g_unlink(link);
    g_rmdir(dir);
    return 0;
}
