/* SPDX-License-Identifier: Apache-2.0
 *
 * Beside bpf_helpers.h: the programs are called by their names.
 */
#ifndef VG_TESTS_FAKE_BPF_BPF_BPF_TRACING_H
#define VG_TESTS_FAKE_BPF_BPF_BPF_TRACING_H

#endif
