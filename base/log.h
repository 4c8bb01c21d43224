/* SPDX-License-Identifier: Apache-2.0
 *
 * The log. The top-level functions of threads, the engine's owner and main() write to it; libraries
 * of the tree return errors instead. A message is a verb phrase, then `key=value`, with strings in
 * double quotes:
 *     vg_log_info("window committed end_ns=%" PRId64 " vms=%u", end_ns, n);
 * err: an operator must act; warn: degraded, but running; notice: a change of state; info; debug.
 *
 * Messages go to one sink, or to standard error if none is set. Any thread. The thread that logs
 * calls the sink, one thread at a time; the sink must not log.
 */
#ifndef VG_BASE_LOG_H
#define VG_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* Same values as in syslog(3). */
enum vg_log_level {
    VG_LOG_ERR = 3,
    VG_LOG_WARN = 4,
    VG_LOG_NOTICE = 5,
    VG_LOG_INFO = 6,
    VG_LOG_DEBUG = 7
};

/* Names of the levels, starting with VG_LOG_ERR; ends with NULL. For configuration tables. */
extern const char *const vg_log_level_names[];

/* Processes a message. tag is the part of the program ("store"); message is one line of valid
 * UTF-8. */
typedef void vg_log_sink(void *data, enum vg_log_level level, const char *tag, const char *message);

/* Sets the sink; NULL for standard error. data is borrowed. */
void vg_log_set_sink(vg_log_sink *sink, void *data);

/* Sets the least urgent level that is logged; initially VG_LOG_INFO. */
void vg_log_set_level(enum vg_log_level level);

/* Logs a message. Control characters become '?', and values are quoted if necessary
 * (base/log-text.h). */
void vg_log(enum vg_log_level level, const char *tag, const char *fmt, ...) G_GNUC_PRINTF(3, 4);

/* State for messages that may occur every second for days. For each call site, one message per
 * minute is logged, and the number of suppressed messages is appended to the next. */
struct vg_log_site {
    int64_t last_ns;
    uint64_t suppressed;
};
void vg_log_limited(struct vg_log_site *site, enum vg_log_level level, const char *tag,
                    const char *fmt, ...) G_GNUC_PRINTF(4, 5);

/* State for messages about whether something works, if this may change every second for days. Four
 * messages per minute are logged. Of the rest, the newest waits until the minute has ended, and the
 * older ones are only counted. So the last message always shows the current state. Initially
 * zeroed; used under the owner's lock, or by one thread. */
#define VG_LOG_TURNS_MAX 4
struct vg_log_turns {
    int64_t begin_ns; /* monotonic, start of the minute */
    unsigned n;       /* number of messages in that minute */
    uint64_t suppressed;
    char *waiting; /* the newest message that was not logged */
    enum vg_log_level level;
};
void vg_log_turn(struct vg_log_turns *turns, enum vg_log_level level, const char *tag,
                 const char *fmt, ...) G_GNUC_PRINTF(4, 5);

/* Logs the waiting message if its minute has ended. Must be called about once per second. */
void vg_log_turns_settle(struct vg_log_turns *turns, const char *tag);

/* Logs the waiting message, and frees it. */
void vg_log_turns_clear(struct vg_log_turns *turns, const char *tag);

/* A source file that logs defines VG_LOG_TAG. */
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
