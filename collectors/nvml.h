/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of NVIDIA's management library that are used here. The library is loaded at run time,
 * because it belongs to the driver, must match its version, and is missing on hosts without the
 * driver. Data layouts follow its public ABI, which is only extended by functions with new names.
 * One thread, although the library supports several.
 */
#ifndef VG_COLLECTORS_NVML_H
#define VG_COLLECTORS_NVML_H

#include <stddef.h>

#include <glib.h>

/* Return values of its functions; others exist. */
enum vg_nvml_return {
    VG_NVML_SUCCESS = 0,
    VG_NVML_UNINITIALIZED = 1,
    VG_NVML_INVALID_ARGUMENT = 2,
    VG_NVML_NOT_SUPPORTED = 3,
    VG_NVML_NO_PERMISSION = 4,
    VG_NVML_NOT_FOUND = 6,
    VG_NVML_INSUFFICIENT_SIZE = 7,
    VG_NVML_DRIVER_NOT_LOADED = 9,
    VG_NVML_FUNCTION_NOT_FOUND = 13,
    VG_NVML_GPU_IS_LOST = 15,
    VG_NVML_RESET_REQUIRED = 16,
    VG_NVML_NO_DATA = 21,
    VG_NVML_VERSION_MISMATCH = 25,
    VG_NVML_DEPRECATED = 26
};

typedef struct vg_nvml_opaque *vg_nvml_handle; /* a device, while the library is initialised */

struct vg_nvml_pci {
    char bus_id_legacy[16];
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned pci_device_id;
    unsigned pci_subsystem_id;
    char bus_id[32];
};

/* Percentages of the last 1/6 to 1 s, depending on the product. */
struct vg_nvml_rates {
    unsigned gpu;
    unsigned memory;
};

struct vg_nvml_memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used; /* and reserved */
};

#define VG_NVML_MEMORY_V2 ((unsigned)sizeof(struct vg_nvml_memory_v2) | 2u << 24)
struct vg_nvml_memory_v2 {
    unsigned version;
    unsigned long long total;
    unsigned long long reserved;
    unsigned long long free;
    unsigned long long used;
};

#define VG_NVML_NOT_AVAILABLE (~0ULL)
struct vg_nvml_process {
    unsigned pid;
    unsigned long long memory; /* bytes, or VG_NVML_NOT_AVAILABLE */
    unsigned gpu_instance;
    unsigned compute_instance;
};

/* Times are microseconds since the epoch; uses are percentages. */
struct vg_nvml_process_use {
    unsigned pid;
    unsigned long long time;
    unsigned sm;
    unsigned memory;
    unsigned enc;
    unsigned dec;
};

enum vg_nvml_value_type {
    VG_NVML_VALUE_DOUBLE,
    VG_NVML_VALUE_UINT,
    VG_NVML_VALUE_ULONG,
    VG_NVML_VALUE_ULLONG
};

union vg_nvml_value {
    double d;
    unsigned u;
    unsigned long ul;
    unsigned long long ull;
};

enum vg_nvml_sampling {
    VG_NVML_SAMPLING_GPU = 1,
    VG_NVML_SAMPLING_MEMORY,
    VG_NVML_SAMPLING_ENC,
    VG_NVML_SAMPLING_DEC
};

struct vg_nvml_sample {
    unsigned long long time;
    union vg_nvml_value value;
};

struct vg_nvml_vgpu_use {
    unsigned instance;
    unsigned long long time;
    union vg_nvml_value sm;
    union vg_nvml_value memory;
    union vg_nvml_value enc;
    union vg_nvml_value dec;
};

enum vg_nvml_vm_id { VG_NVML_VM_DOMAIN_ID, VG_NVML_VM_UUID };

/* vGPUs take turns on the engines; each vGPU has a software run list per engine. Times are in ns.
 */
#define VG_NVML_LOG_MAX         200
#define VG_NVML_ENGINE_GRAPHICS 1
struct vg_nvml_log_entry {
    unsigned long long time; /* time when it was descheduled */
    unsigned long long run_total;
    unsigned long long run; /* run time before that */
    unsigned runlist;
    unsigned long long target;
    unsigned long long preemption_total;
};

struct vg_nvml_log_entry_v2 {
    unsigned long long time;
    unsigned long long run_total;
    unsigned long long run;
    unsigned runlist;
    unsigned long long target;
    unsigned long long preemption_total;
    unsigned weight;
};

struct vg_nvml_log {
    unsigned engine;
    unsigned policy;
    unsigned arr_mode;
    unsigned params[2];
    unsigned n_entries;
    struct vg_nvml_log_entry entries[VG_NVML_LOG_MAX];
};

struct vg_nvml_log_v2 {
    unsigned engine; /* input */
    unsigned policy;
    unsigned avg_factor;
    unsigned timeslice;
    unsigned n_entries;
    struct vg_nvml_log_entry_v2 entries[VG_NVML_LOG_MAX];
};

enum vg_nvml_policy {
    VG_NVML_POLICY_UNKNOWN,
    VG_NVML_POLICY_BEST_EFFORT,
    VG_NVML_POLICY_EQUAL_SHARE,
    VG_NVML_POLICY_FIXED_SHARE
};

struct vg_nvml_scheduler {
    unsigned policy;
    unsigned arr_mode;
    unsigned params[2];
};

struct vg_nvml_scheduler_v2 {
    unsigned engine; /* input */
    unsigned policy;
    unsigned avg_factor;
    unsigned timeslice;
};

/* Whether vGPUs of several types may be on the device. */
#define VG_NVML_HETEROGENEOUS_V1 ((unsigned)sizeof(struct vg_nvml_heterogeneous) | 1u << 24)
struct vg_nvml_heterogeneous {
    unsigned version;
    unsigned enabled;
};

#define VG_NVML_POLICIES 3
struct vg_nvml_scheduler_caps {
    unsigned supported[VG_NVML_POLICIES]; /* enum vg_nvml_policy */
    unsigned timeslice_max;
    unsigned timeslice_min;
    unsigned arr_supported;
    unsigned arr_frequency_max;
    unsigned arr_frequency_min;
    unsigned arr_factor_max;
    unsigned arr_factor_min;
};

/* The library's functions. All except the first five are NULL if they are missing in the library.
 */
struct vg_nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*get_count)(unsigned *count);
    int (*get_handle)(unsigned index, vg_nvml_handle *device);
    int (*get_pci)(vg_nvml_handle device, struct vg_nvml_pci *pci);
    const char *(*error_string)(int code);
    int (*get_name)(vg_nvml_handle device, char *name, unsigned size);
    int (*get_rates)(vg_nvml_handle device, struct vg_nvml_rates *rates);
    /* Report a percentage, and the period in microseconds that it averages. */
    int (*get_encoder_use)(vg_nvml_handle device, unsigned *percent, unsigned *period);
    int (*get_decoder_use)(vg_nvml_handle device, unsigned *percent, unsigned *period);
    int (*get_samples)(vg_nvml_handle device, int sampling, unsigned long long last_time,
                       int *value_type, unsigned *count, struct vg_nvml_sample *samples);
    int (*get_memory)(vg_nvml_handle device, struct vg_nvml_memory *memory);
    int (*get_memory_v2)(vg_nvml_handle device, struct vg_nvml_memory_v2 *memory);
    int (*get_compute_processes)(vg_nvml_handle device, unsigned *count,
                                 struct vg_nvml_process *processes);
    int (*get_graphics_processes)(vg_nvml_handle device, unsigned *count,
                                  struct vg_nvml_process *processes);
    int (*get_process_use)(vg_nvml_handle device, struct vg_nvml_process_use *uses, unsigned *count,
                           unsigned long long last_time);
    int (*get_vgpus)(vg_nvml_handle device, unsigned *count, unsigned *instances);
    int (*get_vgpu_use)(vg_nvml_handle device, unsigned long long last_time, int *value_type,
                        unsigned *count, struct vg_nvml_vgpu_use *uses);
    int (*get_vgpu_vm)(unsigned instance, char *id, unsigned size, int *id_type);
    int (*get_vgpu_mdev)(unsigned instance, char *uuid, unsigned size);
    int (*get_vgpu_memory)(unsigned instance, unsigned long long *used);
    int (*get_log)(vg_nvml_handle device, struct vg_nvml_log *log);
    int (*get_log_v2)(vg_nvml_handle device, struct vg_nvml_log_v2 *log);
    int (*get_scheduler)(vg_nvml_handle device, struct vg_nvml_scheduler *scheduler);
    int (*get_scheduler_v2)(vg_nvml_handle device, struct vg_nvml_scheduler_v2 *scheduler);
    int (*get_scheduler_caps)(vg_nvml_handle device, struct vg_nvml_scheduler_caps *caps);
    /* Slices (MIG devices). Their handles also work for get_memory, and for get_rates if the driver
     * reports that. */
    int (*get_mig_mode)(vg_nvml_handle device, unsigned *enabled, unsigned *pending);
    int (*get_slice_max)(vg_nvml_handle device, unsigned *count);
    int (*get_slice)(vg_nvml_handle device, unsigned index, vg_nvml_handle *slice);
    int (*get_gpu_instance)(vg_nvml_handle slice, unsigned *id);
    int (*get_compute_instance)(vg_nvml_handle slice, unsigned *id);
    /* The types that the device supports, whatever is on it now. */
    int (*get_vgpu_types)(vg_nvml_handle device, unsigned *count, unsigned *types);
    int (*get_vgpu_type_memory)(unsigned type, unsigned long long *bytes);
    int (*get_vgpu_type_max)(vg_nvml_handle device, unsigned type, unsigned *count);
    int (*get_heterogeneous)(vg_nvml_handle device, struct vg_nvml_heterogeneous *mode);
};

/* Calls a function that may be missing in the library. */
#define VG_NVML_CALL(nvml, function, ...)                                                          \
 ((nvml)->function ? (nvml)->function(__VA_ARGS__) : VG_NVML_FUNCTION_NOT_FOUND)

/* The meaning of a result for the caller. */
enum vg_nvml_answer {
    VG_NVML_YES,
    VG_NVML_NOTHING, /* no data now */
    VG_NVML_FAILED,  /* failed this time, for a reason unrelated to the device */
    VG_NVML_NEVER,   /* never works with this device, driver or user */
    VG_NVML_LOST     /* the device has stopped responding */
};

/* Loads the library and finds the functions. It is never unloaded. Fails with VG_E_NOT_FOUND if it
 * is missing, and with VG_E_EXTERNAL if the library is not NVML or is too old. */
int vg_nvml_load(const char *library, struct vg_nvml *ret, GError **err);

enum vg_nvml_answer vg_nvml_answer_of(int code);

/* Returns the library's own text for a return value. */
const char *vg_nvml_says(const struct vg_nvml *nvml, int code);

/* Reads a percentage. Returns -1 if it is not valid. */
double vg_nvml_percent(int value_type, const union vg_nvml_value *value);

#endif
