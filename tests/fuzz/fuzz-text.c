/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a trace text file: no crash, and what is delivered keeps the promises of
 * trace/recording.h and model/event.h.
 */
#include "config.h"

#include "tests/fuzz/check-event.h"
#include "trace/text-read.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vg_recording *recording = vg_text_open_memory("fuzz", (const char *)data, size, NULL);
    struct vg_event event;
    int64_t last_ns = 0;
    uint64_t delivered = 0;

    if (!recording)
        return 0;
    while (vg_recording_next(recording, &event, NULL) == 1) {
        check_event(&event);
        require(event.ts_ns >= last_ns);
        last_ns = event.ts_ns;
        delivered += event.type != VG_EVENT_LOST;
        double progress = vg_recording_progress(recording);
        require(progress >= 0 && progress <= 1);
    }
    require(delivered <= recording->events && recording->backwards <= recording->events);
    require(delivered + recording->rejected >= recording->events);
    vg_recording_free(recording);
    return 0;
}
