/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the kernel provide huge pages to all programs while NVIDIA's driver copies GPU memory to
 * guest memory and back, because that speeds up copying. The owner's setting is restored after
 * each of the two steps, not only at the end of the move. Otherwise, khugepaged would keep moving
 * memory during the migration, which would copy that memory again. Other programs in the guest
 * would also run with a setting that their owner did not choose.
 */
#ifndef VG_GUEST_HUGE_PAGES_H
#define VG_GUEST_HUGE_PAGES_H

#include "guest/conf.h"

/* Saves the setting below /run and changes it to `always`, unless the configuration disables that.
 * Failures are only logged; the driver then takes longer. */
void vg_guest_huge_pages_begin(const struct vg_guest_config *config);

/* Restores the saved setting, even if the process that saved it has ended. Does not change the
 * setting if another program has changed it in the meantime. */
void vg_guest_huge_pages_end(const struct vg_guest_config *config);

#endif
