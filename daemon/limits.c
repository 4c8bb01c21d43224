/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/limits.h"

struct vg_store_options
vg_daemon_store_options(const struct vg_daemon_config *config, bool replays)
{
    return (struct vg_store_options){
        .directory = config->directory,
        .raw_days = config->raw_days,
        .minute_days = config->minute_days,
        .hour_days = config->hour_days,
        .lost_top = config->lost_top,
        .memory_windows = config->memory_windows,
        .log_commits = replays,
    };
}

struct vg_journal_options
vg_daemon_journal_options(const struct vg_daemon_config *config)
{
    return (struct vg_journal_options){
        .directory = config->directory,
        .audit_days = config->audit_days,
        .audit_entries = config->audit_entries,
        .event_days = config->event_days,
        .event_entries = config->event_entries,
    };
}

struct vg_api_limits
vg_daemon_api_limits(const struct vg_daemon_config *config)
{
    return (struct vg_api_limits){
        .connections = config->connections,
        .client_connections = config->client_connections,
        .client_requests = config->client_requests,
        .client_streams = config->client_streams,
        .streams = config->streams,
        .body_bytes = config->body_bytes,
        .idle_ns = config->idle_ns,
        .writes_per_min = config->writes_per_min,
    };
}
