/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the doctor's rows on vgpud's own state.
 */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/timex.h>

#include "base/clock.h"
#include "base/printable.h"
#include "cli/doctor.h"
#include "cli/output.h"
#include "model/trouble.h"

/* The second command is for libvirt's modular daemons. */
#define LIBVIRT_START                                                                              \
 "systemctl enable --now libvirtd || "                                                             \
 "systemctl enable --now virtqemud.socket virtnodedevd.socket virtproxyd.socket"

/* A day of a busy host may need more space than this. */
#define FREE_MIN_BYTES (1024 * 1024 * 1024LL)

/* With a larger clock difference, the times of two hosts cannot be compared well. */
#define CLOCK_MAX_S 1.0

#define LAST_WORDS "journalctl -u vgpud -n 20"
#define CAPABLE                                                                                    \
 "; grant the capabilities with AmbientCapabilities= in a drop-in for vgpud's unit, see vgpud(8)"

struct doctor_remedy {
    const char *mend;
    const char *addition; /* additional information, or NULL */
};

/* The remedies for reasons with codes. */
static const struct doctor_remedy doctor_remedies[VG_TROUBLE_MAX] = {
    [VG_TROUBLE_BPF_DENIED] = {"systemctl edit vgpud", CAPABLE},
    [VG_TROUBLE_BTF_ABSENT] =
        {"apt install linux-image-amd64",
         "; on Ubuntu, install linux-image-generic instead; other kernels may "
         "have to be rebuilt"},
    [VG_TROUBLE_PTRACE_DENIED] = {"systemctl edit vgpud", CAPABLE},
    [VG_TROUBLE_TRACEFS_ABSENT] = {"mount -t tracefs none /sys/kernel/tracing", NULL},
    [VG_TROUBLE_PERF_DENIED] = {"sysctl kernel.perf_event_paranoid=-1", NULL},
    [VG_TROUBLE_PERF_MEMORY] = {"systemctl edit vgpud", "; add LimitMEMLOCK=infinity to a "
                                                        "drop-in for vgpud's unit"},
    [VG_TROUBLE_LIBVIRT_DENIED] = {"adduser vgpud libvirt && systemctl restart vgpud", NULL},
    [VG_TROUBLE_LIBVIRT_ABSENT] = {LIBVIRT_START, NULL},
    [VG_TROUBLE_DISK_FULL] = {"df -h", NULL},
};

/* The remedies for parts whose reasons have no code. */
static const struct {
    const char *what;
    struct doctor_remedy remedy;
} doctor_parts[] = {
    {"store", {LAST_WORDS, NULL}},
    {"journal", {LAST_WORDS, NULL}},
    {"engine", {LAST_WORDS, NULL}},
    {"secrets", {"systemctl reload vgpud", "; then reload vgpud"}},
};

static const char *
doctor_string(json_object *object, const char *member)
{
    const char *text = json_object_get_string(vg_output_member(object, member));

    return text ? text : "";
}

static int64_t
doctor_int(json_object *object, const char *member)
{
    return json_object_get_int64(vg_output_member(object, member));
}

static double
doctor_double(json_object *object, const char *member)
{
    return json_object_get_double(vg_output_member(object, member));
}

/* Returns the trouble code of a part or a source. An older vgpud reports none. */
static enum vg_trouble
doctor_trouble(json_object *object)
{
    const char *code = doctor_string(object, "code");

    for (int i = VG_TROUBLE_NONE + 1; i < VG_TROUBLE_MAX; i++) {
        if (strcmp(vg_trouble_names[i], code) == 0)
            return (enum vg_trouble)i;
    }
    return VG_TROUBLE_NONE;
}

/* Returns the remedy. Its `mend` is NULL if none is known. */
static struct doctor_remedy
doctor_find_remedy(const char *what, enum vg_trouble trouble)
{
    for (size_t i = 0; i < G_N_ELEMENTS(doctor_parts) && !doctor_remedies[trouble].mend; i++) {
        if (strcmp(doctor_parts[i].what, what) == 0)
            return doctor_parts[i].remedy;
    }
    return doctor_remedies[trouble];
}

/* Adds a part or a source that has a problem, with the reason and the remedy, if known. of is a
 * source's category, for example "CPU ", or "". */
static void
doctor_complain_of(json_object *checks, const char *of, const char *what, enum vg_health health,
                   json_object *object)
{
    g_autofree char *whole = g_strconcat(of, what, NULL);
    const struct doctor_remedy remedy = doctor_find_remedy(what, doctor_trouble(object));

    vg_doctor_add(checks, whole, health, remedy.mend, "%s%s", doctor_string(object, "reason"),
                  remedy.addition ? remedy.addition : "");
}

static void
doctor_complain(json_object *checks, const char *what, enum vg_health health, json_object *object)
{
    doctor_complain_of(checks, "", what, health, object);
}

/* Returns ", since 2026-11-25 03:05:10 UTC", or "" if unknown. The caller frees it. */
static char *
doctor_since(json_object *part)
{
    const int64_t since_ns = doctor_int(part, "since_ns");
    char text[VG_UTC_LEN];

    if (since_ns <= 0)
        return g_strdup("");
    return g_strconcat(", since ", vg_utc_format(since_ns / VG_NS_PER_S * VG_NS_PER_S, text), NULL);
}

/* Returns a size as text. Negative values mean unknown. The caller frees it. */
static char *
doctor_bytes(double bytes)
{
    if (bytes < 0)
        return g_strdup("an unknown size");
    /* GLib separates number and unit with a no-break space. */
    g_autofree char *text = g_format_size_full((guint64)bytes, G_FORMAT_SIZE_IEC_UNITS);
    g_auto(GStrv) parts = g_strsplit(text, "\xc2\xa0", -1);
    return g_strjoinv(" ", parts);
}

/* ---- measuring ---- */

/* vgpud reports optional parts without data as ready. */
static enum vg_health
doctor_part_health(json_object *part)
{
    const char *state = doctor_string(part, "state");

    if (!json_object_get_boolean(vg_output_member(part, "ready")))
        return strcmp(state, "starting") == 0 ? VG_HEALTH_LACKS : VG_HEALTH_BROKEN;
    return strcmp(state, "ok") == 0 || strcmp(state, "ended") == 0 ? VG_HEALTH_OK : VG_HEALTH_LACKS;
}

static bool
doctor_is_nvidia(json_object *host)
{
    json_object *gpus = vg_output_member(host, "gpus");

    for (size_t i = 0; i < vg_output_length(gpus); i++) {
        const char *vendor = doctor_string(json_object_array_get_idx(gpus, i), "vendor");
        if (g_ascii_strncasecmp(vendor, "nvidia", strlen("nvidia")) == 0)
            return true;
    }
    return false;
}

static void
doctor_add_source(json_object *checks, json_object *host, json_object *part, json_object *source)
{
    const char *of = strcmp(doctor_string(part, "name"), "collector:gpu") == 0 ? "GPU " : "CPU ";
    const char *name = doctor_string(source, "name"), *state = doctor_string(source, "state");
    const char *why = doctor_string(source, "reason");
    g_autofree char *since = doctor_since(part);
    g_autofree char *what = g_strconcat(of, name, NULL);

    if (strcmp(state, "used") == 0)
        vg_doctor_add(checks, what, VG_HEALTH_OK, NULL, "measures%s%s%s", *why ? ": " : "", why,
                      since);
    else if (strcmp(state, "spare") == 0)
        vg_doctor_add(checks, what, VG_HEALTH_OK, NULL, "is not needed: a better source is in use");
    else if (doctor_trouble(source) == VG_TROUBLE_NVML_ABSENT && doctor_is_nvidia(host))
        vg_doctor_add(checks, what, VG_HEALTH_LACKS,
                      vg_doctor_by_distribution("", "apt install libnvidia-ml1",
                                                "ubuntu-drivers install --gpgpu"),
                      "%s; NVIDIA's driver contains it", why);
    else
        doctor_complain_of(checks, of, name, VG_HEALTH_LACKS, source);
}

/* A collector with sources has a row for each. If the collector itself has failed, this is an
 * additional row. */
static void
doctor_add_collector(json_object *checks, json_object *host, json_object *part, const char *name)
{
    json_object *sources = vg_output_member(part, "sources");
    const enum vg_health health = doctor_part_health(part);
    const char *why = doctor_string(part, "reason");
    g_autofree char *since = doctor_since(part);

    for (size_t i = 0; i < vg_output_length(sources); i++)
        doctor_add_source(checks, host, part, json_object_array_get_idx(sources, i));
    if (health == VG_HEALTH_OK && vg_output_length(sources) == 0)
        vg_doctor_add(checks, name, VG_HEALTH_OK, NULL, "%s%s", *why ? why : "works", since);
    else if (health == VG_HEALTH_BROKEN || vg_output_length(sources) == 0)
        doctor_complain(checks, name, health, part);
}

/* Adds the measures that are missing in the newest window. */
static void
doctor_add_measures(json_object *checks, json_object *host)
{
    json_object *measures = vg_output_member(host, "measurement.measures");

    if (!json_object_is_type(measures, json_type_object) ||
        !vg_output_member(host, "measurement.source"))
        return;
    json_object_object_foreach(measures, name, measure)
    {
        if (!vg_output_member(measure, "source"))
            doctor_complain(checks, name, VG_HEALTH_LACKS, measure);
    }
}

static void
doctor_add_engine(json_object *checks, json_object *host, json_object *part)
{
    const int64_t vms = doctor_int(host, "vms");
    const int64_t missed = doctor_int(host, "measurement.missed");

    if (doctor_part_health(part) != VG_HEALTH_OK)
        doctor_complain(checks, "engine", doctor_part_health(part), part);
    else
        vg_doctor_add(checks, "engine", missed > 0 ? VG_HEALTH_LACKS : VG_HEALTH_OK, NULL,
                      "%" PRId64 " windows of %.3g s, %" PRId64 " missed; the newest is from "
                      "%s, with confidence %.0f %%, and has %" PRId64 " VM%s",
                      doctor_int(host, "measurement.windows"),
                      doctor_double(host, "measurement.window_ns") / (double)VG_NS_PER_S, missed,
                      doctor_string(host, "measurement.source"),
                      doctor_double(host, "measurement.confidence") * 100, vms,
                      vms == 1 ? "" : "s");
}

/* ---- storing ---- */

double
vg_doctor_metric(const char *metrics, const char *name)
{
    const size_t length = strlen(name);

    for (const char *line = metrics; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return g_ascii_strtod(line + length, NULL);
    }
    return -1;
}

static void
doctor_add_store(json_object *checks, json_object *host, json_object *part, const char *metrics)
{
    json_object *store = vg_output_member(host, "daemon.setup.store");
    const char *directory = doctor_string(store, "directory");
    const double free_bytes = vg_doctor_metric(metrics, "vgpud_store_free_bytes");
    const double dropped = vg_doctor_metric(metrics, "vgpud_store_windows_dropped_total");
    const double failures = vg_doctor_metric(metrics, "vgpud_store_failures_total");
    g_autofree char *size = doctor_bytes(vg_doctor_metric(metrics, "vgpud_store_size_bytes"));
    g_autofree char *left = doctor_bytes(free_bytes);
    g_autofree char *quoted = vg_printable_quote(directory);
    g_autofree char *look = g_strdup_printf("df -h %s", quoted);
    const bool is_short = free_bytes >= 0 && free_bytes < FREE_MIN_BYTES;

    if (doctor_part_health(part) != VG_HEALTH_OK) {
        doctor_complain(checks, "store", doctor_part_health(part), part);
        return;
    }
    vg_doctor_add(checks, "store", is_short || dropped > 0 ? VG_HEALTH_LACKS : VG_HEALTH_OK,
                  is_short      ? look
                  : dropped > 0 ? LAST_WORDS
                                : NULL,
                  "%s in %s, %s free%s; it retains windows for %" PRId64 " days, minutes for "
                  "%" PRId64 ", hours for %" PRId64 "; %.0f errors, %.0f windows lost",
                  size, *directory ? directory : "?", left,
                  is_short ? ", which is little (reduce raw_days in [store] of vgpud.conf to "
                             "store less)"
                           : "",
                  doctor_int(store, "raw_days"), doctor_int(store, "minute_days"),
                  doctor_int(store, "hour_days"), MAX(failures, 0), MAX(dropped, 0));
}

/* ---- libvirt ---- */

static void
doctor_add_libvirt(json_object *checks, json_object *host, json_object *part)
{
    if (part)
        doctor_add_collector(checks, host, part, "libvirt");
    else if (json_object_get_boolean(vg_output_member(host, "daemon.replay")))
        vg_doctor_add(checks, "libvirt", VG_HEALTH_OK, NULL, "is not used during a replay");
    else
        vg_doctor_add(checks, "libvirt", VG_HEALTH_LACKS, NULL,
                      "is not used: [libvirt] use=no in vgpud.conf");
}

static void
doctor_add_acting(json_object *checks, json_object *host, json_object *libvirt)
{
    if (!json_object_get_boolean(vg_output_member(host, "daemon.setup.acting")))
        vg_doctor_add(
            checks, "acting", VG_HEALTH_OK, NULL,
            "disabled: no VM is moved; [actions] enabled=yes in vgpud.conf enables moves");
    else if (!libvirt || doctor_part_health(libvirt) != VG_HEALTH_OK)
        vg_doctor_add(checks, "acting", VG_HEALTH_BROKEN, NULL,
                      "enabled, but no VM can be moved without libvirt");
    else
        vg_doctor_add(checks, "acting", VG_HEALTH_OK, NULL, "enabled: VMs may be moved");
}

/* ---- cost ---- */

static void
doctor_add_costs(json_object *checks, json_object *host, const char *metrics)
{
    const double window_ns = doctor_double(host, "measurement.window_ns");
    const double cost =
        window_ns > 0 ? doctor_double(host, "measurement.collector_cost_ns") / window_ns : 0;
    const double budget = doctor_double(host, "daemon.setup.budget");
    const double age_s = (double)vg_clock_realtime_ns() / (double)VG_NS_PER_S -
                         vg_doctor_metric(metrics, "vgpud_start_time_seconds");
    const double cpu_s = vg_doctor_metric(metrics, "process_cpu_seconds_total");
    g_autofree char *memory =
        doctor_bytes(vg_doctor_metric(metrics, "process_resident_memory_bytes"));
    g_autofree char *limit =
        budget > 0 ? g_strdup_printf("of %.3g %% allowed ([live] budget)", budget * 100)
                   : g_strdup("without a limit");
    const int64_t level = doctor_int(host, "measurement.level");

    vg_doctor_add(
        checks, "vgpud's CPU", level > 0 ? VG_HEALTH_LACKS : VG_HEALTH_OK, NULL,
        "measuring took %.2f %% of a core in the newest window, %s%s; all of vgpud %.2f %% "
        "since it started",
        cost * 100, limit, level > 0 ? ", so less is measured" : "",
        cpu_s >= 0 && age_s > 0 ? cpu_s / age_s * 100 : 0.0);
    vg_doctor_add(checks, "vgpud's memory", VG_HEALTH_OK, NULL, "vgpud has %s", memory);
}

static json_object *
doctor_find_part(json_object *host, const char *name)
{
    json_object *parts = vg_output_member(host, "parts");

    for (size_t i = 0; i < vg_output_length(parts); i++) {
        json_object *part = json_object_array_get_idx(parts, i);
        if (strcmp(doctor_string(part, "name"), name) == 0)
            return part;
    }
    return NULL;
}

/* Returns whether other functions add rows for this part. */
static bool
doctor_is_known(const char *name)
{
    static const char *const known[] = {"engine", "store", "collector:libvirt", "peers"};

    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        if (strcmp(known[i], name) == 0)
            return true;
    }
    return false;
}

static void
doctor_add_version(json_object *checks, json_object *host)
{
    json_object *daemon = vg_output_member(host, "daemon");
    char text[VG_UTC_LEN];

    vg_doctor_add(
        checks, "vgpud", VG_HEALTH_OK, NULL, "%s watches '%s'%s, since %s",
        doctor_string(daemon, "version"), doctor_string(host, "name"),
        json_object_get_boolean(vg_output_member(daemon, "replay")) ? ", whose recording it replays"
                                                                    : "",
        vg_utc_format(doctor_int(daemon, "started_ns") / VG_NS_PER_S * VG_NS_PER_S, text));
}

void
vg_doctor_read_host(json_object *checks, json_object *host, const char *metrics)
{
    json_object *parts = vg_output_member(host, "parts");
    json_object *libvirt = doctor_find_part(host, "collector:libvirt");

    doctor_add_version(checks, host);
    for (size_t i = 0; i < vg_output_length(parts); i++) {
        json_object *part = json_object_array_get_idx(parts, i);
        const char *name = doctor_string(part, "name");
        if (strcmp(name, "engine") == 0)
            doctor_add_engine(checks, host, part);
        else if (strcmp(name, "store") == 0)
            doctor_add_store(checks, host, part, metrics);
        else if (!doctor_is_known(name))
            doctor_add_collector(checks, host, part,
                                 g_str_has_prefix(name, "collector:") ? strchr(name, ':') + 1
                                                                      : name);
    }
    if (!json_object_get_boolean(vg_output_member(host, "daemon.setup.gpu")))
        vg_doctor_add(checks, "gpu", VG_HEALTH_LACKS, NULL,
                      "GPUs are not monitored: [gpu] enable=no in vgpud.conf");
    doctor_add_measures(checks, host);
    doctor_add_libvirt(checks, host, libvirt);
    doctor_add_acting(checks, host, libvirt);
    doctor_add_costs(checks, host, metrics);
}

/* ---- others ---- */

/* Adds a row for each host that matches several groups. An older vgpud does not report them. */
static void
doctor_add_host_groups(json_object *checks, json_object *warnings)
{
    for (size_t i = 0; i < vg_output_length(warnings); i++) {
        const char *text = json_object_get_string(json_object_array_get_idx(warnings, i));
        if (text)
            vg_doctor_add(checks, "host groups", VG_HEALTH_LACKS, NULL, "%s", text);
    }
}

void
vg_doctor_read_peers(json_object *checks, json_object *peers)
{
    json_object *items = vg_output_member(peers, "items");

    for (size_t i = 0; i < vg_output_length(items); i++) {
        json_object *peer = json_object_array_get_idx(items, i);
        const char *state = doctor_string(peer, "state");
        const double off_s = doctor_double(peer, "clock_difference_ns") / (double)VG_NS_PER_S;
        const double error_s = doctor_double(peer, "round_trip_ns") / (double)VG_NS_PER_S;
        g_autofree char *what = g_strdup_printf("peer %s", doctor_string(peer, "name"));
        if (strcmp(state, "unknown") == 0)
            vg_doctor_add(checks, what, VG_HEALTH_LACKS, NULL, "has not been queried yet");
        else if (strcmp(state, "reachable") != 0)
            vg_doctor_add(checks, what, VG_HEALTH_BROKEN, "vgpuctl peer list -o wide",
                          "does not answer at %s: %s", doctor_string(peer, "url"),
                          doctor_string(peer, "reason"));
        else if (!json_object_get_boolean(vg_output_member(peer, "clock_known")) ||
                 fabs(off_s) <= MAX(error_s, CLOCK_MAX_S))
            vg_doctor_add(checks, what, VG_HEALTH_OK, NULL, "answers; host '%s'",
                          doctor_string(peer, "host"));
        else
            vg_doctor_add(checks, what, VG_HEALTH_LACKS, "timedatectl set-ntp true",
                          "answers, but the clock of its host '%s' differs by %+.3g s; one of "
                          "the two clocks is wrong",
                          doctor_string(peer, "host"), off_s);
    }
    doctor_add_host_groups(checks, vg_output_member(peers, "host_group_warnings"));
}

void
vg_doctor_read_clock(json_object *checks)
{
    struct timex status = {.modes = 0};

    if (adjtimex(&status) < 0)
        vg_doctor_add(checks, "clock", VG_HEALTH_LACKS, NULL,
                      "the kernel does not report whether the clock is synchronised");
    else if (status.status & STA_UNSYNC)
        vg_doctor_add(checks, "clock", VG_HEALTH_LACKS, "timedatectl set-ntp true",
                      "this machine's clock is not synchronised (NTP, chrony)");
    else
        vg_doctor_add(checks, "clock", VG_HEALTH_OK, NULL,
                      "synchronised, with an estimated error of %.3g ms",
                      (double)status.esterror / 1000);
}
