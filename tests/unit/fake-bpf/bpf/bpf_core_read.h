/* SPDX-License-Identifier: Apache-2.0
 *
 * Beside bpf_helpers.h: types are as collectors/bpf-kernel.h has them, nothing is relocated.
 */
#ifndef VG_TESTS_FAKE_BPF_BPF_BPF_CORE_READ_H
#define VG_TESTS_FAKE_BPF_BPF_BPF_CORE_READ_H

#define bpf_core_field_exists(field)  (sizeof(field) > 0)
#define BPF_CORE_READ(object, member) ((object)->member)

#endif
