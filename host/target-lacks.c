/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/target-lacks.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "host/xml-walk.h"
#include "model/snapshot.h"

#define TEXT_BYTES_MAX 4096
#define NUMBERS_MAX    VG_CPU_LIMIT
#define KIB_MAX        (INT64_C(1) << 40)
/* A normal page, not a huge one, has at most this size on any CPU. */
#define SMALL_PAGE_KIB 64

struct lacks {
    const xmlNode *domain;
    const xmlNode *host;  /* <host> in the capabilities */
    const xmlNode *cells; /* the first <cell>; NULL: unknown */
    GPtrArray *problems;
};

static void lacks_add(const struct lacks *lacks, const char *fmt, ...) G_GNUC_PRINTF(2, 3);

static void
lacks_add(const struct lacks *lacks, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    g_ptr_array_add(lacks->problems, g_strdup_vprintf(fmt, args));
    va_end(args);
}

/* ---- CPUs and NUMA nodes ---- */

static bool
lacks_has_id(const xmlNode *node, int64_t id)
{
    while (node && vg_xml_attribute_number(node, "id", NUMBERS_MAX, -1) != id)
        node = vg_xml_next(node);
    return node != NULL;
}

static bool
lacks_has_cpu(const struct lacks *lacks, int64_t cpu)
{
    bool has = false;

    for (const xmlNode *cell = lacks->cells; cell && !has; cell = vg_xml_next(cell))
        has = lacks_has_id(vg_xml_at(cell, "cpus/cpu"), cpu);
    return has;
}

static bool
lacks_has_node(const struct lacks *lacks, int64_t node)
{
    return lacks_has_id(lacks->cells, node);
}

/* Finds the first number of a set such as "0-3,^2,7" that the host does not have, or returns -1. */
static int64_t
lacks_find(const struct lacks *lacks, const char *set,
           bool (*has)(const struct lacks *lacks, int64_t number))
{
    g_auto(GStrv) parts = g_strsplit(set, ",", -1);
    g_autofree bool *wanted = g_new0(bool, NUMBERS_MAX);

    for (size_t i = 0; parts[i]; i++) {
        const char *part = g_strstrip(parts[i]);
        const bool out = *part == '^';
        char *end = NULL;
        const guint64 first = g_ascii_strtoull(part + out, &end, 10);
        const guint64 last = *end == '-' ? g_ascii_strtoull(end + 1, NULL, 10) : first;
        for (guint64 n = first; n <= last && n < NUMBERS_MAX && end != part + out; n++)
            wanted[n] = !out;
    }
    for (int64_t n = 0; n < NUMBERS_MAX; n++)
        if (wanted[n] && !has(lacks, n))
            return n;
    return -1;
}

/* Judges the sets of all elements at a path: their attribute, or their text if it is NULL. */
static void
lacks_judge_sets(const struct lacks *lacks, const char *path, const char *attribute, bool is_cpus)
{
    for (const xmlNode *node = vg_xml_at(lacks->domain, path); node; node = vg_xml_next(node)) {
        g_autofree char *set = attribute ? vg_xml_attribute(node, attribute, TEXT_BYTES_MAX)
                                         : vg_xml_text(node, TEXT_BYTES_MAX);
        const int64_t missing =
            set ? lacks_find(lacks, set, is_cpus ? lacks_has_cpu : lacks_has_node) : -1;
        if (missing >= 0)
            lacks_add(lacks,
                      "<%s> binds the VM to the host's %s %s, and the target has no %s %" PRId64,
                      node->name, is_cpus ? "CPUs" : "NUMA nodes", set,
                      is_cpus ? "CPU" : "NUMA node", missing);
    }
}

static void
lacks_judge_memory_devices(const struct lacks *lacks)
{
    const xmlNode *memory = vg_xml_at(lacks->domain, "devices/memory");

    for (; memory; memory = vg_xml_next(memory)) {
        const struct lacks one = {memory, lacks->host, lacks->cells, lacks->problems};
        lacks_judge_sets(&one, "source/nodemask", NULL, false);
    }
}

/* ---- huge pages ---- */

/* Reads a size in KiB, which is also the default unit. */
static int64_t
lacks_read_kib(const xmlNode *node, const char *attribute)
{
    static const struct {
        const char *unit;
        int64_t kib;
    } units[] = {{"M", 1 << 10},   {"MiB", 1 << 10}, {"G", 1 << 20},
                 {"GiB", 1 << 20}, {"T", 1 << 30},   {"TiB", 1 << 30}};
    const int64_t size = attribute ? vg_xml_attribute_number(node, attribute, KIB_MAX, 0)
                                   : vg_xml_number(node, KIB_MAX, 0);

    if (vg_xml_attribute_is(node, "unit", "b") || vg_xml_attribute_is(node, "unit", "bytes"))
        return size / 1024;
    for (size_t i = 0; i < G_N_ELEMENTS(units); i++)
        if (vg_xml_attribute_is(node, "unit", units[i].unit))
            return size <= KIB_MAX / units[i].kib ? size * units[i].kib : 0;
    return size;
}

/* Counts the host's pages of a size, in use or not. Size 0 means huge pages of any size. */
static int64_t
lacks_count_pages(const struct lacks *lacks, int64_t kib)
{
    int64_t sum = 0;

    for (const xmlNode *cell = lacks->cells; cell; cell = vg_xml_next(cell))
        for (const xmlNode *pages = vg_xml_child(cell, "pages"); pages;
             pages = vg_xml_next(pages)) {
            const int64_t size = lacks_read_kib(pages, "size");
            if (kib > 0 ? size == kib : size > SMALL_PAGE_KIB)
                sum += vg_xml_number(pages, KIB_MAX, 0);
        }
    return sum;
}

static void
lacks_judge_pages(const struct lacks *lacks, const char *element, int64_t kib)
{
    g_autofree char *size = kib > 0 ? g_strdup_printf(" of %" PRId64 " KiB", kib) : g_strdup("");

    if (vg_xml_child(lacks->cells, "pages") && lacks_count_pages(lacks, kib) == 0)
        lacks_add(lacks, "<%s> needs huge pages%s, and the target has none", element, size);
}

static void
lacks_judge_huge_pages(const struct lacks *lacks)
{
    const xmlNode *huge = vg_xml_at(lacks->domain, "memoryBacking/hugepages");
    const xmlNode *page = vg_xml_child(huge, "page");
    const xmlNode *memory = vg_xml_at(lacks->domain, "devices/memory");

    if (huge && !page)
        lacks_judge_pages(lacks, "hugepages", 0);
    for (; page; page = vg_xml_next(page))
        if (lacks_read_kib(page, "size") > SMALL_PAGE_KIB)
            lacks_judge_pages(lacks, "page", lacks_read_kib(page, "size"));
    for (; memory; memory = vg_xml_next(memory)) {
        const int64_t kib = lacks_read_kib(vg_xml_at(memory, "source/pagesize"), NULL);
        if (kib > SMALL_PAGE_KIB)
            lacks_judge_pages(lacks, "pagesize", kib);
    }
}

/* ---- TPM ---- */

/* Returns whether the host can run its own TPM: libvirt then has this backend. */
static bool
lacks_has_tpm(const xmlNode *tpm)
{
    const xmlNode *list = vg_xml_child(tpm, "enum");

    while (list && !vg_xml_attribute_is(list, "name", "backendModel"))
        list = vg_xml_next(list);
    for (const xmlNode *value = vg_xml_child(list, "value"); value; value = vg_xml_next(value)) {
        g_autofree char *text = vg_xml_text(value, TEXT_BYTES_MAX);
        if (g_strcmp0(text, "emulator") == 0)
            return true;
    }
    return false;
}

static int
lacks_judge_tpm(const struct lacks *lacks, const char *domain_capabilities, GError **err)
{
    const xmlNode *tpm = vg_xml_at(lacks->domain, "devices/tpm");
    g_autoptr(vg_xml) doc = NULL;

    while (tpm && !vg_xml_attribute_is(vg_xml_child(tpm, "backend"), "type", "emulator"))
        tpm = vg_xml_next(tpm);
    if (!tpm || !domain_capabilities)
        return 0;
    doc = vg_xml_parse(domain_capabilities, "domainCapabilities", err);
    if (!doc)
        return -1;
    const xmlNode *there = vg_xml_at(vg_xml_root(doc), "devices/tpm");
    if (there && !lacks_has_tpm(there))
        lacks_add(lacks, "<tpm> needs a TPM that the host emulates, and the target has none: "
                         "install swtpm and swtpm-tools there");
    return 0;
}

/* ---- the whole ---- */

int
vg_target_lacks(const char *domain, const char *capabilities, const char *domain_capabilities,
                GPtrArray *problems, GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(domain, "domain", err);
    g_autoptr(vg_xml) host = doc ? vg_xml_parse(capabilities, "capabilities", err) : NULL;

    if (!host)
        return -1;
    struct lacks lacks = {
        .domain = vg_xml_root(doc),
        .host = vg_xml_child(vg_xml_root(host), "host"),
        .problems = problems,
    };
    lacks.cells = vg_xml_at(lacks.host, "topology/cells/cell");
    if (lacks.cells) {
        lacks_judge_sets(&lacks, "vcpu", "cpuset", true);
        lacks_judge_sets(&lacks, "cputune/vcpupin", "cpuset", true);
        lacks_judge_sets(&lacks, "cputune/emulatorpin", "cpuset", true);
        lacks_judge_sets(&lacks, "cputune/iothreadpin", "cpuset", true);
        lacks_judge_sets(&lacks, "numatune/memory", "nodeset", false);
        lacks_judge_sets(&lacks, "numatune/memnode", "nodeset", false);
        lacks_judge_memory_devices(&lacks);
        lacks_judge_huge_pages(&lacks);
    }
    return lacks_judge_tpm(&lacks, domain_capabilities, err);
}
