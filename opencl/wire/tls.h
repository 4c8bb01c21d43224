/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS 1.3 over a connection to another machine. Whoever carries it (a thread of the program's
 * library, or a process of the proxy's that has nothing else to do) has the connection at one side,
 * and at the other one a socket by which what is said goes in clear within the machine: so what is
 * above knows nothing of it.
 *
 * The proxy shows a certificate for the HOST of its address, of a CA that the program's side knows.
 * The program's side may show one for its VM. Whom the proxy refuses then, it tells why, by
 * struct vg_wire_refusal.
 */
#ifndef VG_OPENCL_WIRE_TLS_H
#define VG_OPENCL_WIRE_TLS_H

#include <stdbool.h>
#include <stddef.h>

#define VG_WIRE_TLS_FAULT 512 /* bytes of a text that says what is wrong */

/* PEM files; NULL: there is none. */
struct vg_wire_tls_files {
    const char *ca;          /* that the other side's certificate is of */
    const char *certificate; /* that is shown; of the proxy's side with its chain */
    const char *key;
};

struct vg_wire_tls;

/* Shakes hands over FD with the proxy at HOST, for up to LIMIT_S seconds; FD stays the caller's.
 * FILES->certificate and its key may be missing. NULL: FAULT says why. Any thread. */
struct vg_wire_tls *vg_wire_tls_connect(int fd, const char *host,
                                        const struct vg_wire_tls_files *files, int limit_s,
                                        char fault[VG_WIRE_TLS_FAULT]);

/* The same of the proxy's side, in two steps: nothing is read of a file once there is somebody at
 * the other side. FILES->ca may be NULL: certificates are not asked for. */
struct vg_wire_tls *vg_wire_tls_begin(const struct vg_wire_tls_files *files,
                                      char fault[VG_WIRE_TLS_FAULT]);
bool vg_wire_tls_accept(struct vg_wire_tls *tls, int fd, int limit_s,
                        char fault[VG_WIRE_TLS_FAULT]);

/* What is known of the certificate that the other side has shown. */
enum vg_wire_tls_shown {
    VG_WIRE_TLS_NONE,  /* it has shown none */
    VG_WIRE_TLS_OTHER, /* one that is not good, or not NAME's: FAULT says why */
    VG_WIRE_TLS_SHOWN, /* one that is NAME's: its CN, or a DNS name or URI of it, are that */
};
enum vg_wire_tls_shown vg_wire_tls_check(struct vg_wire_tls *tls, const char *name,
                                         char fault[VG_WIRE_TLS_FAULT]);

/* Whether the certificate that the other side has shown, if any, may be used by that side. One
 * without an extended key usage may; one whose usages leave it out may in this version, and its
 * user is to be warned. */
bool vg_wire_tls_is_for_its_side(struct vg_wire_tls *tls);

/* Says to the other side, which waits for a welcome, why it is refused. */
void vg_wire_tls_refuse(struct vg_wire_tls *tls, const char *why);

/* Carries what is said between the connection and PLAIN, both of which are closed at its end, when
 * one of them is; frees TLS. */
void vg_wire_tls_carry(struct vg_wire_tls *tls, int plain);

/* The same in a thread of its own, without signals. Returns the other end of PLAIN; -1, with errno:
 * nothing was closed or freed. */
int vg_wire_tls_carry_beside(struct vg_wire_tls *tls, int fd);

/* Waits for up to MS milliseconds until such threads have sent what there was to be sent, after the
 * other ends of theirs were closed or shut down. */
void vg_wire_tls_settle(int ms);

void vg_wire_tls_free(struct vg_wire_tls *tls); /* NULL is fine; the connection stays */

/* What the first certificate of a file says. */
struct vg_wire_tls_facts {
    long long begin, end; /* when it is good, in seconds since the epoch */
    bool is_for_servers;  /* its extended key usage allows it, or it has none */
};

/* Reads the file PATH. False: FAULT says why. */
bool vg_wire_tls_read_facts(const char *path, struct vg_wire_tls_facts *facts,
                            char fault[VG_WIRE_TLS_FAULT]);

#endif
