/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/comm.h"

#include <string.h>

#include <glib.h>

#include "model/event.h"

/* A comm has no space for more digits in addition to "CPU " and "/KVM". */
#define VCPU_INDEX_MAX 9999999

bool
vg_comm_is_vcpu(const char *comm, int32_t *ret_index)
{
    int32_t index = 0;
    const char *at = comm + 4;

    /* QEMU uses this name with -name ...,debug-threads=on, which libvirt always sets. */
    if (strcmp(comm, "ALL CPUs/TCG") == 0) {
        *ret_index = VG_NONE;
        return true;
    }
    if (strncmp(comm, "CPU ", 4) != 0 || !g_ascii_isdigit(*at))
        return false;
    for (; g_ascii_isdigit(*at) && index <= VCPU_INDEX_MAX; at++)
        index = index * 10 + g_ascii_digit_value(*at);
    if (strcmp(at, "/KVM") != 0 && strcmp(at, "/TCG") != 0)
        return false;
    *ret_index = index;
    return true;
}

bool
vg_comm_is_qemu(const char *comm)
{
    return strncmp(comm, "qemu-system-", 12) == 0 || strcmp(comm, "qemu-kvm") == 0 ||
           strcmp(comm, "kvm") == 0;
}

/* Threads that the kernel itself and its modules start, such as ZFS, DRBD, NVIDIA's driver and the
 * rings of DRM. '*' matches anything. */
static const char *const kernel_comms[] = {
    "UVM Tools Event*",
    "UVM deferred re*",
    "UVM global queu*",
    "arc_evict",
    "arc_prune",
    "arc_reap",
    "bcache_writebac*",
    "btrfs-*",
    "card*-crtc*",
    "cpuhp/*",
    "dbu_evict",
    "dbuf_evict",
    "dmcrypt_write/*",
    "drbd_*_*",
    "edac-poller",
    "events/*",
    "ext4-rsv-*",
    "gvt:*",
    "gvt_service_th*",
    "hwrng",
    "i915/signal:*",
    "idle_inject/*",
    "irq/*",
    "iscsi_trx",
    "iscsi_ttx",
    "jbd2/*",
    "jpeg_dec*",
    "kauditd",
    "kblockd",
    "kcompactd*",
    "kdevtmpfs",
    "kdmflush/*",
    "khugepaged",
    "khungtaskd",
    "kintegrityd",
    "ksmd",
    "ksoftirqd/*",
    "kswapd*",
    "kthreadd",
    "kthrotld",
    "kvm-nx-lpage-*",
    "kvm-pit/*",
    "kworker/*",
    "l2arc_feed",
    "md*_raid*",
    "migration/*",
    "napi/*",
    "nv_open_q",
    "nv_queue",
    "nvidia-modeset/*",
    "oom_reaper",
    "psimon",
    "rcu_*",
    "rcub/*",
    "rcuc/*",
    "rcuob/*",
    "rcuog/*",
    "rcuop/*",
    "rcuos/*",
    "scsi_eh_*",
    "scsi_tmf_*",
    "spl_*",
    "stopper/*",
    "swapper/*",
    "ttm_swap",
    "txg_quiesce",
    "txg_sync",
    "vcn_dec*",
    "vcn_enc*",
    "vcn_unified*",
    "watchdog/*",
    "watchdogd",
    "writeback",
    "xfs-*/*",
    "xfsaild/*",
    "z_*_int*",
    "z_*_iss*",
    "z_prefetch*",
    "z_unlinked_drai*",
    "z_upgrade*",
    "z_vdev_file*",
    "z_zvol*",
    "zthr_*",
};

/* More such threads, which only a number after the prefix distinguishes from programs. */
static const char *const kernel_comms_numbered[] = {
    "comp_", "gfx_", "loop", "nvme", "sdma", "vhost-",
};

enum vg_thread_kind
vg_comm_kind(const char *comm)
{
    for (size_t i = 0; i < G_N_ELEMENTS(kernel_comms); i++) {
        if (g_pattern_match_simple(kernel_comms[i], comm))
            return VG_THREAD_KERNEL;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(kernel_comms_numbered); i++) {
        size_t length = strlen(kernel_comms_numbered[i]);
        if (strncmp(comm, kernel_comms_numbered[i], length) == 0 && g_ascii_isdigit(comm[length]))
            return VG_THREAD_KERNEL;
    }
    return VG_THREAD_UNKNOWN;
}

bool
vg_comm_names_owner(const char *comm, int32_t *ret_pid)
{
    static const char *const prefixes[] = {"vhost-", "kvm-pit/"};

    for (size_t i = 0; i < G_N_ELEMENTS(prefixes); i++) {
        guint64 pid;
        if (g_str_has_prefix(comm, prefixes[i]) &&
            g_ascii_string_to_unsigned(comm + strlen(prefixes[i]), 10, 1, VG_TID_LIMIT, &pid,
                                       NULL)) {
            *ret_pid = (int32_t)pid;
            return true;
        }
    }
    return false;
}
