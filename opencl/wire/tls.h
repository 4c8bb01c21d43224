/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS 1.3 on connections to other machines. A relay (a thread of the program's library, or a
 * dedicated process of the proxy) has the connection on one side, and on the other a local socket
 * with the decrypted data. The layers above need not know about TLS.
 *
 * The proxy presents a certificate for the HOST of its address, issued by a CA that the program's
 * side trusts. The program's side may present a certificate for its VM. If the proxy then refuses
 * it, it sends the reason in a struct vg_wire_refusal.
 */
#ifndef VG_OPENCL_WIRE_TLS_H
#define VG_OPENCL_WIRE_TLS_H

#include <stdbool.h>
#include <stddef.h>

#define VG_WIRE_TLS_FAULT 512 /* bytes of an error text */

/* PEM files, each NULL if not configured. */
struct vg_wire_tls_files {
    const char *ca;          /* issuer of the other side's certificate */
    const char *certificate; /* the certificate to present, on the proxy's side with its chain */
    const char *key;
};

struct vg_wire_tls;

/* Performs the handshake over FD with the proxy at HOST, within LIMIT_S seconds. The caller still
 * owns FD. FILES->certificate and its key may be missing. Returns NULL on failure, with the reason
 * in FAULT. Any thread. */
struct vg_wire_tls *vg_wire_tls_connect(int fd, const char *host,
                                        const struct vg_wire_tls_files *files, int limit_s,
                                        char fault[VG_WIRE_TLS_FAULT]);

/* The same on the proxy's side, in two steps, so that no file is read while a client is connected.
 * If FILES->ca is NULL, no client certificate is requested. */
struct vg_wire_tls *vg_wire_tls_begin(const struct vg_wire_tls_files *files,
                                      char fault[VG_WIRE_TLS_FAULT]);
bool vg_wire_tls_accept(struct vg_wire_tls *tls, int fd, int limit_s,
                        char fault[VG_WIRE_TLS_FAULT]);

/* The result of checking the other side's certificate. */
enum vg_wire_tls_shown {
    VG_WIRE_TLS_NONE,  /* it presented none */
    VG_WIRE_TLS_OTHER, /* it is invalid or not for NAME: see FAULT */
    VG_WIRE_TLS_SHOWN, /* it is for NAME, which is its CN or one of its DNS names or URIs */
};
enum vg_wire_tls_shown vg_wire_tls_check(struct vg_wire_tls *tls, const char *name,
                                         char fault[VG_WIRE_TLS_FAULT]);

/* Returns whether the certificate presented by the other side, if any, may be used by that side. A
 * certificate without an extended key usage may. A certificate whose usages exclude this is still
 * accepted in this version, but its user must be warned. */
bool vg_wire_tls_is_for_its_side(struct vg_wire_tls *tls);

/* Sends the reason for refusal to the other side, which waits for a welcome. */
void vg_wire_tls_refuse(struct vg_wire_tls *tls, const char *why);

/* Relays data between the connection and PLAIN until either closes. Then closes both and frees
 * TLS. */
void vg_wire_tls_carry(struct vg_wire_tls *tls, int plain);

/* As vg_wire_tls_carry(), in a separate thread with signals blocked. Returns the other end of
 * PLAIN. On failure returns -1 with errno and closes or frees nothing. */
int vg_wire_tls_carry_beside(struct vg_wire_tls *tls, int fd);

/* Waits up to MS milliseconds until such threads have sent their remaining data, after the other
 * ends of their sockets were closed or shut down. */
void vg_wire_tls_settle(int ms);

void vg_wire_tls_free(struct vg_wire_tls *tls); /* TLS may be NULL; the connection stays open */

/* Properties of the first certificate in a file. */
struct vg_wire_tls_facts {
    long long begin, end; /* validity period, in seconds since the epoch */
    bool is_for_servers;  /* its extended key usage permits it or is absent */
};

/* Reads the file PATH. Returns false on failure, with the reason in FAULT. */
bool vg_wire_tls_read_facts(const char *path, struct vg_wire_tls_facts *facts,
                            char fault[VG_WIRE_TLS_FAULT]);

#endif
