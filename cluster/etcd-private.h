/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files of etcd's client share.
 */
#ifndef VG_CLUSTER_ETCD_PRIVATE_H
#define VG_CLUSTER_ETCD_PRIVATE_H

#include "cluster/etcd.h"

/* A request, and the function that parses the answer. */
struct etcd_question {
    const char *path;
    const char *body;
    int (*read)(const GString *text, void *data, GError **err);
    void *data;
};

/* Sends the request to one member after another until one answers, or the limit has passed. */
int etcd_call(vg_etcd *etcd, const struct etcd_question *question, int64_t limit_ns, GError **err);

#endif
