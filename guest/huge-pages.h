/* SPDX-License-Identifier: Apache-2.0
 *
 * Has the kernel give huge pages to all programs while NVIDIA's driver copies GPU memory into that
 * of the guest and back, since that makes copying faster. The owner's setting is restored after
 * each of the two steps, not only when the VM has moved. Otherwise, khugepaged would go on moving
 * memory during the migration, which would copy all of it again, and other programs of the guest
 * would have a setting that nobody chose for the duration of the move.
 */
#ifndef VG_GUEST_HUGE_PAGES_H
#define VG_GUEST_HUGE_PAGES_H

#include "guest/conf.h"

/* Keeps the setting below /run and changes it to `always`, unless the configuration says no.
 * Failures are logged; the driver then only takes longer. */
void vg_guest_huge_pages_begin(const struct vg_guest_config *config);

/* Restores the kept setting, even if the process that kept it has ended since, unless another
 * program has changed the setting meanwhile. */
void vg_guest_huge_pages_end(const struct vg_guest_config *config);

#endif
