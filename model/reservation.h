/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs of this host that are reserved for a VM that will arrive, or that left and may return.
 */
#ifndef VG_MODEL_RESERVATION_H
#define VG_MODEL_RESERVATION_H

#include "model/migration.h"

/* Limits of a lease, in seconds. */
#define VG_LEASE_MIN_S 10
#define VG_LEASE_MAX_S 3600

struct vg_reservation {
    char *id;      /* "res-" and 16 hexadecimal digits */
    char *move_id; /* id of the move */
    char *vm;
    char *uuid;
    char *from;      /* host */
    char *asked_by;  /* identity; NULL if this vgpud itself requested it */
    bool dry_run;    /* in a request: reserve nothing */
    int64_t lease_s; /* how long the reservation lasts without renewal */
    int64_t made_ns; /* epoch */
    int64_t expires_ns;
    GPtrArray *devices; /* struct vg_move_device */
};

extern const struct vg_record_type vg_reservation_record;

struct vg_reservation *vg_reservation_new(void);
void vg_reservation_free(void *reservation); /* NULL is fine */
struct vg_reservation *vg_reservation_copy(const struct vg_reservation *reservation);
typedef struct vg_reservation vg_reservation;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_reservation, vg_reservation_free)

#endif
