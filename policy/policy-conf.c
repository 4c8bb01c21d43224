/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/policy-conf.h"

#include <string.h>

#include "base/error.h"

/* A share is in hundredths of a percent. Small clusters may have at least this many moves. */
#define SHARE_ALL          10000
#define MOVES_OF_SHARE_MIN 3

#define AT(member) offsetof(struct vg_policy_config, member)

const char *const vg_rule_names[] = {
    [VG_RULE_COMPLEMENT] = "complement",
    [VG_RULE_PAPER_THRESHOLD] = "paper-threshold",
    [VG_RULE_MAX] = NULL,
};

const char *const vg_gpu_placement_names[] = {
    [VG_GPU_PLACEMENT_SPREAD] = "spread",
    [VG_GPU_PLACEMENT_PACK] = "pack",
    [VG_GPU_PLACEMENT_MAX] = NULL,
};

/* Where the defaults come from:
 * - classes, half-life, alternating: the project's own choice, tried on recordings;
 * - threshold, hold and minimum gain: the three brakes that keep a balancer from flapping. 0.05
 *   cores is 5 % of one CPU, and 30 s is longer than a boot or a package installation;
 * - bandwidth and stun: QEMU's own defaults for a migration (max-bandwidth 128 MiB/s,
 *   downtime-limit 300 ms);
 * - GPU modes: the same gain as for a move, but four times as much if all vGPUs of the GPU must be
 *   removed in the meantime. 1 ms is a sixteenth of a frame. */
const struct vg_conf_key vg_policy_keys[] = {
    {"score", "half_life", VG_CONF_DURATION, AT(score.half_life_ns), "60s", 1, 86400, NULL,
     "Half-life of the live intensities."},
    {"score", "cpu_enter", VG_CONF_DOUBLE, AT(score.cpu_enter), "0.3", 0, 1, NULL,
     "CPU intensity at or above which a VM counts as CPU-intensive."},
    {"score", "cpu_leave", VG_CONF_DOUBLE, AT(score.cpu_leave), "0.2", 0, 1, NULL,
     "CPU intensity below which a VM no longer counts as CPU-intensive."},
    {"score", "gpu_enter", VG_CONF_DOUBLE, AT(score.gpu_enter), "0.3", 0, 1, NULL,
     "GPU intensity at or above which a VM counts as GPU-intensive."},
    {"score", "gpu_leave", VG_CONF_DOUBLE, AT(score.gpu_leave), "0.2", 0, 1, NULL,
     "GPU intensity below which a VM no longer counts as GPU-intensive."},
    {"score", "alternating_enter", VG_CONF_DOUBLE, AT(score.alternating_enter), "-0.5", -1, 0, NULL,
     "Correlation of CPU and GPU intensity at or below which a VM counts as alternating."},
    {"score", "alternating_leave", VG_CONF_DOUBLE, AT(score.alternating_leave), "-0.3", -1, 0, NULL,
     "Correlation above which a VM no longer counts as alternating."},
    {"score", "alternating_mean", VG_CONF_DOUBLE, AT(score.alternating_mean), "0.1", 0, 1, NULL,
     "Minimum of both mean intensities of an alternating VM."},
    {"score", "alternating_windows", VG_CONF_INT, AT(score.alternating_windows), "30", 2,
     VG_SCORE_WINDOWS_MAX, NULL, "Windows needed before a VM can count as alternating."},

    {"policy", "rule", VG_CONF_ENUM, AT(rule), "complement", 0, 0, vg_rule_names, "Planning rule."},
    {"policy", "contention_threshold", VG_CONF_DOUBLE, AT(contention_threshold), "0.05", 0, 1000,
     NULL, "Lost cores (or GPU engines) at or above which a host counts as contended."},
    {"policy", "hold", VG_CONF_DURATION, AT(hold_ns), "30s", 0, 86400, NULL,
     "Most recent period over which a host's mean loss must reach the threshold. 0 disables this."},
    {"policy", "hold_long", VG_CONF_DURATION, AT(hold_long_ns), "300s", 0, 86400, NULL,
     "Longer period over which the mean loss must also reach the threshold. 0 disables this; a "
     "value below hold counts as hold."},
    {"policy", "hold_fraction", VG_CONF_DOUBLE, AT(hold_fraction), "-1", -1, 1, NULL,
     "Ignored; hold and hold_long replace it."},
    {"policy", "min_gain", VG_CONF_DOUBLE, AT(min_gain), "0.05", 0, 1000, NULL,
     "Minimum gain of a move in cores, after its cost."},
    {"policy", "min_gain_fraction", VG_CONF_DOUBLE, AT(min_gain_fraction), "0.1", 0, 1, NULL,
     "Minimum gain of a move as a share of the maximum: its host's loss or the VM's demand."},
    {"policy", "stale", VG_CONF_DURATION, AT(stale_ns), "60s", 0, 86400, NULL,
     "Age of a host's figures at which its moves must gain twice as much. 0 disables this."},
    {"policy", "gpu_weight", VG_CONF_DOUBLE, AT(gpu_weight), "1", 0, 1000, NULL,
     "The value of a lost GPU engine, in cores."},
    {"policy", "max_moves_per_plan", VG_CONF_COUNT, AT(max_moves), "10%", 0, 1000, NULL,
     "Maximum number of moves per plan: a number, or a share of the plan's hosts, rounded up "
     "and at least 3."},
    {"policy", "max_moves_per_host", VG_CONF_INT, AT(max_moves_per_host), "1", 1, 1000, NULL,
     "Maximum number of moves of one host per wave, as source or target."},
    {"policy", "horizon", VG_CONF_DURATION, AT(horizon_ns), "600s", 1, 2592000, NULL,
     "Period within which a move must make up for its cost."},
    {"policy", "gpu_placement", VG_CONF_ENUM, AT(gpu_placement), "spread", 0, 0,
     vg_gpu_placement_names, "spread: the least used GPU; pack: GPUs in use before empty ones."},
    {"policy", "preempt_threshold_per_s", VG_CONF_DOUBLE, AT(preempt_threshold), "10", 0, 1e9, NULL,
     "paper-threshold: preemptions per second above which a CPU-intensive VM moves."},
    {"policy", "paper_max_moves", VG_CONF_INT, AT(paper_max_moves), "1", 0, 1000, NULL,
     "paper-threshold: maximum number of moves per plan."},

    {"migration", "bandwidth", VG_CONF_INT, AT(bandwidth), "134217728", 1000000, 1e12, NULL,
     "Bytes that a migration copies per second."},
    {"migration", "stun", VG_CONF_DURATION, AT(stun_ns), "300ms", 0, 3600, NULL,
     "Assumed downtime of a migrating VM, without the time for its GPU memory."},
    {"migration", "copy_cores", VG_CONF_DOUBLE, AT(copy_cores), "1", 0, 64, NULL,
     "Cores used for copying, on both hosts together."},
    {"migration", "assumed_memory", VG_CONF_INT, AT(assumed_memory_bytes), "4294967296", 0, 1e15,
     NULL, "Bytes of memory assumed for a VM whose memory is unknown."},

    {"gpu-mode", "min_gain", VG_CONF_DOUBLE, AT(gpu_mode.min_gain), "0.05", 0, 1000, NULL,
     "Seconds of GPU waiting per second that a mode must avoid if it can be set live."},
    {"gpu-mode", "min_gain_disruptive", VG_CONF_DOUBLE, AT(gpu_mode.min_gain_disruptive), "0.2", 0,
     1000, NULL, "Same as min_gain for a mode that needs an empty GPU or recreated vGPUs."},
    {"gpu-mode", "max_worsening", VG_CONF_DOUBLE, AT(gpu_mode.max_worsening), "0.2", 0, 1000, NULL,
     "Maximum share by which the p95 latency of a VM may rise, or its requests per second may "
     "fall."},
    {"gpu-mode", "ignore_worsening", VG_CONF_DURATION, AT(gpu_mode.ignore_worsening_ns), "1ms", 0,
     60, NULL, "Rise of a p95 latency that is always acceptable, regardless of its share."},
    {"gpu-mode", "max_model_error", VG_CONF_DOUBLE, AT(gpu_mode.max_model_error), "0.25", 0, 1000,
     NULL, "Error in the simulation of the current mode above which vgpud proposes no mode."},
    {"gpu-mode", "min_requests", VG_CONF_INT, AT(gpu_mode.min_requests), "20", 1, 1e9, NULL,
     "Minimum number of GPU requests of a VM for a comparison with the recording."},
};

const size_t vg_policy_n_keys = G_N_ELEMENTS(vg_policy_keys);

int64_t
vg_policy_max_moves(const struct vg_policy_config *config, size_t n_hosts)
{
    const int64_t share = -config->max_moves;

    if (share <= 0)
        return config->max_moves;
    return MAX(((int64_t)n_hosts * share + SHARE_ALL - 1) / SHARE_ALL, MOVES_OF_SHARE_MIN);
}

void
vg_policy_config_init(struct vg_policy_config *config)
{
    memset(config, 0, sizeof(*config));
    vg_conf_defaults(vg_policy_keys, vg_policy_n_keys, config);
}

static void
check_order(const char *low, double low_value, const char *high, double high_value, GString *errors)
{
    if (low_value > high_value)
        g_string_append_printf(errors, "%s[score] %s: %g must not be above %s, which is %g",
                               errors->len > 0 ? "\n" : "", low, low_value, high, high_value);
}

int
vg_policy_config_check(const struct vg_policy_config *config, GError **err)
{
    const struct vg_score_config *score = &config->score;
    g_autoptr(GString) errors = g_string_new(NULL);

    check_order("cpu_leave", score->cpu_leave, "cpu_enter", score->cpu_enter, errors);
    check_order("gpu_leave", score->gpu_leave, "gpu_enter", score->gpu_enter, errors);
    check_order("alternating_enter", score->alternating_enter, "alternating_leave",
                score->alternating_leave, errors);
    return errors->len > 0 ? vg_error(err, VG_E_INVALID, "%s", errors->str) : 0;
}

int
vg_policy_config_parse(const char *text, size_t size, struct vg_policy_config *ret, GError **err)
{
    struct vg_policy_config config;
    vg_policy_config_init(&config);
    if (vg_conf_parse(vg_policy_keys, vg_policy_n_keys, NULL, text, size, &config, err) < 0)
        return -1;
    if (vg_policy_config_check(&config, err) < 0)
        return -1;
    *ret = config;
    return 0;
}

/* Appends the host groups to a dump. */
static char *
conf_add_groups(const struct vg_policy_config *config, char *take_dump)
{
    GString *text = g_string_new(take_dump);

    g_free(take_dump);
    for (size_t i = 0; i < config->n_host_groups; i++) {
        const struct vg_host_group *group = &config->host_groups[i];
        g_string_append_printf(text, "\n[hosts %s]\nmatch=%s\n", group->name, group->match);
        if (group->has_gpu_placement)
            g_string_append_printf(text, "gpu_placement=%s\n",
                                   vg_gpu_placement_names[group->gpu_placement]);
    }
    return g_string_free(text, FALSE);
}

char *
vg_policy_config_dump(const struct vg_policy_config *config)
{
    return conf_add_groups(config, vg_conf_dump(vg_policy_keys, vg_policy_n_keys, config));
}

char *
vg_policy_config_dump_of_plans(const struct vg_policy_config *config)
{
    size_t n = 0;

    while (n < vg_policy_n_keys && strcmp(vg_policy_keys[n].group, "gpu-mode") != 0)
        n++;
    return conf_add_groups(config, vg_conf_dump(vg_policy_keys, n, config));
}

int
vg_rule_from_name(const char *name, enum vg_rule_id *ret, GError **err)
{
    for (int i = 0; vg_rule_names[i]; i++) {
        if (strcmp(vg_rule_names[i], name) == 0) {
            *ret = (enum vg_rule_id)i;
            return 0;
        }
    }
    g_autofree char *list = g_strjoinv(", ", (char **)vg_rule_names);
    return vg_error(err, VG_E_NOT_FOUND, "rule '%s' does not exist; the rules are: %s", name, list);
}
