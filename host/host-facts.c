/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/host-facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "host/cpu-list.h"

#define ONLINE "/sys/devices/system/cpu/online"

/* Reads a line such as "MemAvailable:  123 kB" from /proc/meminfo. Returns the bytes, or 0 without
 * such a line. */
static int64_t
read_meminfo(const char *name)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[256];
    int64_t kib = 0;

    while (file && fgets(line, sizeof(line), file)) {
        size_t length = strlen(name);
        if (strncmp(line, name, length) == 0 && sscanf(line + length, ": %" SCNd64, &kib) == 1)
            break;
    }
    if (file)
        fclose(file);
    return kib * 1024;
}

/* Returns how many CPUs of a list are online. */
static int64_t
host_facts_count_online(const struct vg_cpu_list *list)
{
    struct vg_cpu_list online;
    g_autofree char *text = NULL;

    /* If the kernel does not report which CPUs are online, the whole list counts. */
    if (!g_file_get_contents(ONLINE, &text, NULL, NULL) ||
        vg_cpu_list_parse(text, &online, NULL) < 0)
        return vg_cpu_list_count_both(list, list);
    return vg_cpu_list_count_both(list, &online);
}

int
vg_host_facts_check_cpus(const char *text, GError **err)
{
    struct vg_cpu_list list;

    if (!text[0])
        return 0;
    if (vg_cpu_list_parse(text, &list, err) < 0) {
        g_prefix_error(err, "[daemon] cpus: ");
        return -1;
    }
    if (host_facts_count_online(&list) == 0)
        return vg_error(err, VG_E_INVALID, "[daemon] cpus: none of the CPUs '%s' is online", text);
    return 0;
}

/* Returns the number of this host's CPUs (host/cpu-list.h) that are online; 0 if none is. */
static int64_t
host_facts_cpus(void)
{
    const struct vg_cpu_list *list = vg_cpu_list_host();

    return list ? host_facts_count_online(list) : MAX(sysconf(_SC_NPROCESSORS_ONLN), 0);
}

void
vg_host_facts_read(vg_inventory *inventory)
{
    inventory->cpus = host_facts_cpus();
    inventory->memory_bytes = read_meminfo("MemTotal");
    inventory->memory_free_bytes = read_meminfo("MemAvailable");
}

void
vg_host_facts_complete(const vg_inventory *facts, bool is_ours, vg_inventory *inventory)
{
    if (inventory->cpus == 0 || (vg_cpu_list_host() && facts->cpus > 0))
        inventory->cpus = facts->cpus;
    /* libvirt does not see memory that was added after boot. */
    if (is_ours || inventory->memory_bytes == 0 || inventory->memory_bytes == facts->memory_bytes) {
        inventory->memory_bytes = facts->memory_bytes;
        inventory->memory_free_bytes = facts->memory_free_bytes;
    }
}

char *
vg_host_facts_name(void)
{
    char name[256] = "";

    if (gethostname(name, sizeof(name) - 1) != 0 || !name[0] || !g_utf8_validate(name, -1, NULL))
        return g_strdup("localhost");
    return g_strdup(name);
}

double
vg_process_cpu_s(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int64_t
vg_process_rss_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    int64_t size, pages = 0;

    if (!file)
        return 0;
    if (fscanf(file, "%" SCNd64 " %" SCNd64, &size, &pages) != 2)
        pages = 0;
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}
