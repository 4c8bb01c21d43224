/* SPDX-License-Identifier: Apache-2.0
 *
 * The log. Thread tops, the engine's owner and main() write to it; libraries of the tree return
 * errors instead. A message is a verb phrase, then `key=value`, strings in double quotes:
 *     vg_log_info("window committed end_ns=%" PRId64 " vms=%u", end_ns, n);
 * err: somebody must act; warn: degraded, but going on; notice: a change of state; info; debug.
 *
 * Messages go to one sink, standard error if none is set. Any thread; a sink is called by the
 * thread that logs, one at a time, and must not log.
 */
#ifndef VG_BASE_LOG_H
#define VG_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* The values are those of syslog(3). */
enum vg_log_level {
    VG_LOG_ERR = 3,
    VG_LOG_WARN = 4,
    VG_LOG_NOTICE = 5,
    VG_LOG_INFO = 6,
    VG_LOG_DEBUG = 7
};

/* The names of the levels, from VG_LOG_ERR on, ending with NULL. For configuration tables. */
extern const char *const vg_log_level_names[];

/* Takes a message. tag names the part of the program ("store"); message is one line of valid
 * UTF-8. */
typedef void vg_log_sink(void *data, enum vg_log_level level, const char *tag, const char *message);

/* Sets the sink; NULL for standard error. data is borrowed. */
void vg_log_set_sink(vg_log_sink *sink, void *data);

/* Sets the least urgent level that is logged; VG_LOG_INFO at first. */
void vg_log_set_level(enum vg_log_level level);

/* Logs a message, in which control characters become '?', and values are kept apart
 * (base/log-text.h). */
void vg_log(enum vg_log_level level, const char *tag, const char *fmt, ...) G_GNUC_PRINTF(3, 4);

/* State for messages that may come every second for days: one in a minute is logged for each call
 * site, and the number of those left out is appended to the next one. */
struct vg_log_site {
    int64_t last_ns;
    uint64_t suppressed;
};
void vg_log_limited(struct vg_log_site *site, enum vg_log_level level, const char *tag,
                    const char *fmt, ...) G_GNUC_PRINTF(4, 5);

/* State for messages about one thing that works or not, and may change every second for days: four
 * of a minute are logged. Of those that come then the newest waits until the minute is over, and
 * those before it are counted. So the last message always says how the thing is. Zeroed at first;
 * used under a lock of the owner, or by one thread. */
#define VG_LOG_TURNS_MAX 4
struct vg_log_turns {
    int64_t begin_ns; /* monotonic, of the minute */
    unsigned n;       /* messages of it */
    uint64_t suppressed;
    char *waiting; /* the newest, which was not logged */
    enum vg_log_level level;
};
void vg_log_turn(struct vg_log_turns *turns, enum vg_log_level level, const char *tag,
                 const char *fmt, ...) G_GNUC_PRINTF(4, 5);

/* Logs the message that waits, if its minute is over. To be called every second or so. */
void vg_log_turns_settle(struct vg_log_turns *turns, const char *tag);

/* Logs the message that waits, and frees it. */
void vg_log_turns_clear(struct vg_log_turns *turns, const char *tag);

/* A source that logs defines VG_LOG_TAG. */
#define vg_log_err(...)    vg_log(VG_LOG_ERR, VG_LOG_TAG, __VA_ARGS__)
#define vg_log_warn(...)   vg_log(VG_LOG_WARN, VG_LOG_TAG, __VA_ARGS__)
#define vg_log_notice(...) vg_log(VG_LOG_NOTICE, VG_LOG_TAG, __VA_ARGS__)
#define vg_log_info(...)   vg_log(VG_LOG_INFO, VG_LOG_TAG, __VA_ARGS__)
#define vg_log_debug(...)  vg_log(VG_LOG_DEBUG, VG_LOG_TAG, __VA_ARGS__)

#define vg_log_warn_limited(...)                                                                   \
 do {                                                                                              \
  static struct vg_log_site vg_log_site_;                                                          \
  vg_log_limited(&vg_log_site_, VG_LOG_WARN, VG_LOG_TAG, __VA_ARGS__);                             \
 } while (0)

#endif
