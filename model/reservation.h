/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs of this host that are kept for a VM: one that comes, or one that left and may come back.
 */
#ifndef VG_MODEL_RESERVATION_H
#define VG_MODEL_RESERVATION_H

#include "model/migration.h"

/* Seconds of a lease. */
#define VG_LEASE_MIN_S 10
#define VG_LEASE_MAX_S 3600

struct vg_reservation {
    char *id;      /* "res-" and 16 hexadecimal digits */
    char *move_id; /* of the move that it is for */
    char *vm;
    char *uuid;
    char *from;      /* host */
    char *asked_by;  /* identity; NULL: this vgpud itself */
    bool dry_run;    /* in a request: nothing is kept */
    int64_t lease_s; /* how long it is kept if nobody renews it */
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
