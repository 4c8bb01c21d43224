/* SPDX-License-Identifier: Apache-2.0
 *
 * Has the kernel give huge pages to whoever asks for memory, while NVIDIA's driver copies GPU
 * memory into that of the guest and back: it copies faster then. The owner's setting is put back
 * after each of the two, not only when the VM has moved: khugepaged would go on moving memory while
 * the VM is being migrated, all of which would be copied again, and other programs of the guest
 * would have a setting that nobody chose for as long as the move takes.
 */
#ifndef VG_GUEST_HUGE_PAGES_H
#define VG_GUEST_HUGE_PAGES_H

#include "guest/conf.h"

/* Keeps the setting below /run and makes it `always`, unless the configuration says no. What cannot
 * be done is logged: the driver only takes longer then. */
void vg_guest_huge_pages_begin(const struct vg_guest_config *config);

/* Puts back what is kept, also by a process that has ended since, unless somebody else has changed
 * the setting meanwhile. */
void vg_guest_huge_pages_end(const struct vg_guest_config *config);

#endif
