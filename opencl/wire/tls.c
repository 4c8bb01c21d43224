/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/wire/arrival.h"
#include "opencl/wire/tls-library.h"
#include "opencl/wire/tls-private.h"

/* Both sides are this product's. With the shorter key, large data takes less time. */
#define TLS_PRIORITY                                                                               \
 "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305"
#define TLS_FIRST 0x16 /* first byte of a handshake */

/* ---- what GnuTLS reads and writes by ---- */

static ssize_t
tls_push(gnutls_transport_ptr_t data, const void *bytes, size_t size)
{
    return send((int)(intptr_t)data, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t
tls_pull(gnutls_transport_ptr_t data, void *bytes, size_t size)
{
    return recv((int)(intptr_t)data, bytes, size, MSG_DONTWAIT);
}

/* ---- what both sides begin with ---- */

static bool
tls_read_files(struct vg_wire_tls *tls, const struct vg_wire_tls_files *files,
               char fault[VG_WIRE_TLS_FAULT])
{
    const struct tls_library *gnutls = tls->gnutls;
    int result = 0;

    if (files->ca) {
        result = gnutls->gnutls_certificate_set_x509_trust_file(tls->credentials, files->ca,
                                                                GNUTLS_X509_FMT_PEM);
        if (result <= 0) {
            snprintf(fault, VG_WIRE_TLS_FAULT, "'%s' contains no CA certificate: %s", files->ca,
                     access(files->ca, R_OK) != 0 ? strerror(errno)
                     : result < 0                 ? gnutls->gnutls_strerror(result)
                                                  : "it is empty");
            return false;
        }
    }
    if (!files->certificate)
        return true;
    result = gnutls->gnutls_certificate_set_x509_key_file(tls->credentials, files->certificate,
                                                          files->key, GNUTLS_X509_FMT_PEM);
    if (result >= 0)
        return true;
    snprintf(fault, VG_WIRE_TLS_FAULT,
             "the certificate in '%s' and the key in '%s' cannot be "
             "used: %s",
             files->certificate, files->key,
             access(files->certificate, R_OK) != 0 || access(files->key, R_OK) != 0
                 ? strerror(errno)
                 : gnutls->gnutls_strerror(result));
    return false;
}

static struct vg_wire_tls *
tls_new(unsigned flags, const struct vg_wire_tls_files *files, char fault[VG_WIRE_TLS_FAULT])
{
    const struct tls_library *gnutls = vg_wire_tls_library(fault, VG_WIRE_TLS_FAULT);
    struct vg_wire_tls *tls = gnutls ? calloc(1, sizeof *tls) : NULL;

    if (!gnutls)
        return NULL;
    snprintf(fault, VG_WIRE_TLS_FAULT, "out of memory");
    if (!tls)
        return NULL;
    tls->gnutls = gnutls;
    tls->fd = -1;
    tls->is_server = flags & GNUTLS_SERVER;
    if (gnutls->gnutls_certificate_allocate_credentials(&tls->credentials) != 0 ||
        gnutls->gnutls_init(&tls->session,
                            flags | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS) != 0) {
        vg_wire_tls_free(tls);
        return NULL;
    }
    const char *wrong = NULL;
    int result = gnutls->gnutls_priority_set_direct(tls->session, TLS_PRIORITY, &wrong);
    if (result != 0)
        snprintf(fault, VG_WIRE_TLS_FAULT, "this version of GnuTLS does not support TLS 1.3: %s",
                 gnutls->gnutls_strerror(result));
    if (result != 0 || !tls_read_files(tls, files, fault)) {
        vg_wire_tls_free(tls);
        return NULL;
    }
    gnutls->gnutls_credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE, tls->credentials);
    gnutls->gnutls_transport_set_push_function(tls->session, tls_push);
    gnutls->gnutls_transport_set_pull_function(tls->session, tls_pull);
    fault[0] = '\0';
    return tls;
}

void
vg_wire_tls_free(struct vg_wire_tls *tls)
{
    if (!tls)
        return;
    if (tls->session)
        tls->gnutls->gnutls_deinit(tls->session);
    if (tls->credentials)
        tls->gnutls->gnutls_certificate_free_credentials(tls->credentials);
    free(tls);
}

/* ---- shaking hands ---- */

static int64_t
tls_until(int limit_s)
{
    return vg_cl_now() + limit_s * INT64_C(1000000000);
}

/* Waits until the connection is ready for EVENTS. Returns false with errno if it is late. */
static bool
tls_wait(int fd, short events, int64_t until)
{
    for (;;) {
        const int64_t left = until - vg_cl_now();
        struct pollfd at = {.fd = fd, .events = events};
        int n = left > 0 ? poll(&at, 1, (int)(left / 1000000) + 1) : 0;
        if (n > 0)
            return true;
        if (n == 0) {
            errno = ETIMEDOUT;
            return false;
        }
        if (errno != EINTR)
            return false;
    }
}

/* Reports why the handshake has failed with RESULT. */
static void
tls_report_failed(const struct vg_wire_tls *tls, int result, char fault[VG_WIRE_TLS_FAULT])
{
    const struct tls_library *gnutls = tls->gnutls;

    if (result == GNUTLS_E_FATAL_ALERT_RECEIVED)
        snprintf(fault, VG_WIRE_TLS_FAULT, "the peer aborted the TLS handshake: %s",
                 gnutls->gnutls_alert_get_name(gnutls->gnutls_alert_get(tls->session)));
    else if (result == GNUTLS_E_PREMATURE_TERMINATION || result == GNUTLS_E_PUSH_ERROR ||
             result == GNUTLS_E_PULL_ERROR)
        snprintf(fault, VG_WIRE_TLS_FAULT,
                 "the peer disconnected during the TLS handshake, so it may not use TLS");
    else if (result == GNUTLS_E_UNEXPECTED_PACKET || result == GNUTLS_E_UNEXPECTED_PACKET_LENGTH ||
             result == GNUTLS_E_UNSUPPORTED_VERSION_PACKET)
        snprintf(fault, VG_WIRE_TLS_FAULT, "the peer does not use TLS");
    else
        snprintf(fault, VG_WIRE_TLS_FAULT, "the TLS handshake failed: %s",
                 gnutls->gnutls_strerror(result));
}

static bool
tls_shake_hands(struct vg_wire_tls *tls, int64_t until, char fault[VG_WIRE_TLS_FAULT])
{
    const struct tls_library *gnutls = tls->gnutls;
    int result;

    while ((result = gnutls->gnutls_handshake(tls->session)) != 0) {
        const bool is_out = gnutls->gnutls_record_get_direction(tls->session) == 1;
        if (result == GNUTLS_E_CERTIFICATE_ERROR && tls->host) {
            gnutls->gnutls_alert_send(tls->session, GNUTLS_AL_FATAL, tls->alert);
            return false;
        }
        if (result != GNUTLS_E_AGAIN && gnutls->gnutls_error_is_fatal(result)) {
            tls_report_failed(tls, result, fault);
            return false;
        }
        if (result == GNUTLS_E_AGAIN && !tls_wait(tls->fd, is_out ? POLLOUT : POLLIN, until)) {
            snprintf(fault, VG_WIRE_TLS_FAULT, "the TLS handshake did not complete: %s",
                     strerror(errno));
            return false;
        }
    }
    return true;
}

static void
tls_use(struct vg_wire_tls *tls, int fd)
{
    tls->fd = fd;
    tls->gnutls->gnutls_transport_set_ptr(tls->session, (void *)(intptr_t)fd);
}

/* Reads the other side's certificate. Returns NULL if there is none, or it is invalid. */
static gnutls_x509_crt_t
tls_peer(const struct vg_wire_tls *tls)
{
    const struct tls_library *gnutls = tls->gnutls;
    unsigned n = 0;
    const gnutls_datum_t *shown = gnutls->gnutls_certificate_get_peers(tls->session, &n);
    gnutls_x509_crt_t certificate;

    if (!shown || n == 0 || gnutls->gnutls_x509_crt_init(&certificate) != 0)
        return NULL;
    if (gnutls->gnutls_x509_crt_import(certificate, shown, GNUTLS_X509_FMT_DER) == 0)
        return certificate;
    gnutls->gnutls_x509_crt_deinit(certificate);
    return NULL;
}

/* Returns whether the other side's certificate is from a known CA, and currently valid. */
static bool
tls_is_good(struct vg_wire_tls *tls, const char *whose, char fault[VG_WIRE_TLS_FAULT])
{
    const struct tls_library *gnutls = tls->gnutls;
    gnutls_datum_t text = {NULL, 0};
    unsigned status = 0;
    int result = gnutls->gnutls_certificate_verify_peers(tls->session, NULL, 0, &status);

    if (result == 0 && status == 0)
        return true;
    tls->alert = status & GNUTLS_CERT_EXPIRED            ? GNUTLS_A_CERTIFICATE_EXPIRED
                 : status & GNUTLS_CERT_SIGNER_NOT_FOUND ? GNUTLS_A_UNKNOWN_CA
                                                         : GNUTLS_A_BAD_CERTIFICATE;
    if (result != 0)
        snprintf(fault, VG_WIRE_TLS_FAULT, "%s certificate cannot be checked: %s", whose,
                 gnutls->gnutls_strerror(result));
    else if (status & GNUTLS_CERT_EXPIRED)
        snprintf(fault, VG_WIRE_TLS_FAULT, "%s certificate has expired", whose);
    else if (status & GNUTLS_CERT_NOT_ACTIVATED)
        snprintf(fault, VG_WIRE_TLS_FAULT, "%s certificate is not valid yet", whose);
    else if (status & GNUTLS_CERT_SIGNER_NOT_FOUND)
        snprintf(fault, VG_WIRE_TLS_FAULT, "%s certificate was issued by an unknown CA", whose);
    else if (gnutls->gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text,
                                                                  0) == 0)
        snprintf(fault, VG_WIRE_TLS_FAULT, "%s certificate is not valid: %.*s", whose,
                 (int)text.size, text.data);
    free(text.data); /* gnutls_malloc is malloc, unless the program has changed it */
    return false;
}

static bool
tls_is_for(const struct tls_library *gnutls, gnutls_x509_crt_t certificate, const char *purpose)
{
    return gnutls->gnutls_x509_crt_check_key_purpose(certificate, purpose, 0) != 0;
}

bool
vg_wire_tls_is_for_its_side(struct vg_wire_tls *tls)
{
    gnutls_x509_crt_t certificate = tls_peer(tls);
    bool is_for = !certificate ||
                  tls_is_for(tls->gnutls, certificate,
                             tls->is_server ? GNUTLS_KP_TLS_WWW_CLIENT : GNUTLS_KP_TLS_WWW_SERVER);

    if (certificate)
        tls->gnutls->gnutls_x509_crt_deinit(certificate);
    return is_for;
}

static void
tls_take_facts(const struct tls_library *gnutls, gnutls_x509_crt_t certificate,
               struct vg_wire_tls_facts *facts)
{
    facts->begin = (long long)gnutls->gnutls_x509_crt_get_activation_time(certificate);
    facts->end = (long long)gnutls->gnutls_x509_crt_get_expiration_time(certificate);
    facts->is_for_servers = tls_is_for(gnutls, certificate, GNUTLS_KP_TLS_WWW_SERVER);
}

/* ---- the program's side ---- */

static bool
tls_is_host(struct vg_wire_tls *tls, const char *host, char fault[VG_WIRE_TLS_FAULT])
{
    gnutls_x509_crt_t certificate = tls_peer(tls);
    bool is_host =
        certificate && tls->gnutls->gnutls_x509_crt_check_hostname(certificate, host) != 0;

    tls->alert = GNUTLS_A_BAD_CERTIFICATE;
    if (!is_host)
        snprintf(fault, VG_WIRE_TLS_FAULT, "the proxy's certificate is not for '%s'", host);
    if (certificate)
        tls->gnutls->gnutls_x509_crt_deinit(certificate);
    return is_host;
}

/* Called in the handshake, so that the other side sees that it is refused, and why. */
static int
tls_verify(gnutls_session_t session)
{
    const struct tls_library *gnutls = vg_wire_tls_library(NULL, 0);
    struct vg_wire_tls *tls = gnutls->gnutls_session_get_ptr(session);

    return tls_is_good(tls, "the proxy's", tls->fault) && tls_is_host(tls, tls->host, tls->fault)
               ? 0
               : GNUTLS_E_CERTIFICATE_ERROR;
}

struct vg_wire_tls *
vg_wire_tls_connect(int fd, const char *host, const struct vg_wire_tls_files *files, int limit_s,
                    char fault[VG_WIRE_TLS_FAULT])
{
    struct vg_wire_tls *tls = tls_new(GNUTLS_CLIENT | GNUTLS_FORCE_CLIENT_CERT, files, fault);
    bool is_name = strspn(host, "0123456789.:abcdefABCDEF") != strlen(host);

    if (!tls)
        return NULL;
    tls_use(tls, fd);
    if (is_name)
        tls->gnutls->gnutls_server_name_set(tls->session, GNUTLS_NAME_DNS, host, strlen(host));
    tls->host = host;
    tls->fault = fault;
    tls->gnutls->gnutls_session_set_ptr(tls->session, tls);
    tls->gnutls->gnutls_certificate_set_verify_function(tls->credentials, tls_verify);
    bool ok = tls_shake_hands(tls, tls_until(limit_s), fault);
    tls->host = tls->fault = NULL;
    if (ok)
        return tls;
    vg_wire_tls_free(tls);
    return NULL;
}

/* ---- the proxy's side ---- */

struct vg_wire_tls *
vg_wire_tls_begin(const struct vg_wire_tls_files *files, char fault[VG_WIRE_TLS_FAULT])
{
    struct vg_wire_tls *tls = tls_new(GNUTLS_SERVER, files, fault);

    if (tls && files->ca)
        tls->gnutls->gnutls_certificate_server_set_request(tls->session, GNUTLS_CERT_REQUEST);
    return tls;
}

bool
vg_wire_tls_accept(struct vg_wire_tls *tls, int fd, int limit_s, char fault[VG_WIRE_TLS_FAULT])
{
    const int64_t until = tls_until(limit_s);
    unsigned char first = 0;

    tls_use(tls, fd);
    if (!tls_wait(fd, POLLIN, until)) {
        snprintf(fault, VG_WIRE_TLS_FAULT, "it has sent nothing for %d s", limit_s);
        return false;
    }
    ssize_t n = recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n <= 0) {
        snprintf(fault, VG_WIRE_TLS_FAULT, "it closed the connection before it sent anything");
        return false;
    }
    if (first != TLS_FIRST) {
        vg_wire_arrival_refuse(fd,
                               "it accepts only TLS: its address starts with tls:, not with tcp:");
        snprintf(fault, VG_WIRE_TLS_FAULT, "it does not use TLS");
        return false;
    }
    return tls_shake_hands(tls, until, fault);
}

/* Returns whether the certificate is for NAME, by its alternative names or its common name. */
static bool
tls_is_of(const struct vg_wire_tls *tls, gnutls_x509_crt_t certificate, const char *name,
          char found[256])
{
    const struct tls_library *gnutls = tls->gnutls;
    char text[256];

    for (unsigned i = 0;; i++) {
        size_t size = sizeof text - 1;
        int type = gnutls->gnutls_x509_crt_get_subject_alt_name(certificate, i, text, &size, NULL);
        if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
            break;
        if (type != GNUTLS_SAN_DNSNAME && type != GNUTLS_SAN_URI)
            continue;
        text[size] = '\0';
        const char *uuid = strncmp(text, "urn:uuid:", 9) == 0 ? text + 9 : text;
        if (strlen(text) == size && strcasecmp(uuid, name) == 0)
            return true;
    }
    size_t size = 256;
    if (gnutls->gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, found,
                                              &size) != 0)
        snprintf(found, 256, "nobody");
    return strcasecmp(found, name) == 0;
}

enum vg_wire_tls_shown
vg_wire_tls_check(struct vg_wire_tls *tls, const char *name, char fault[VG_WIRE_TLS_FAULT])
{
    gnutls_x509_crt_t certificate = tls_peer(tls);
    char found[256] = "";

    if (!certificate)
        return VG_WIRE_TLS_NONE;
    bool is_good = tls_is_good(tls, "the program's", fault);
    bool is_of = is_good && tls_is_of(tls, certificate, name, found);
    if (is_good && !is_of)
        snprintf(fault, VG_WIRE_TLS_FAULT, "the program's certificate is for '%s', not for '%s'",
                 found, name);
    tls->gnutls->gnutls_x509_crt_deinit(certificate);
    return is_of ? VG_WIRE_TLS_SHOWN : VG_WIRE_TLS_OTHER;
}

void
vg_wire_tls_refuse(struct vg_wire_tls *tls, const char *why)
{
    struct vg_wire_refusal refusal;
    const int64_t until = tls_until(1);

    vg_wire_refusal_make(&refusal, why);
    while (tls->gnutls->gnutls_record_send(tls->session, &refusal, sizeof refusal) ==
               GNUTLS_E_AGAIN &&
           tls_wait(tls->fd, POLLOUT, until))
        ;
    tls->gnutls->gnutls_bye(tls->session, GNUTLS_SHUT_WR);
    /* Read what it has sent, because otherwise it would get a reset instead of the reason. */
    shutdown(tls->fd, SHUT_WR);
    for (char bytes[4096]; tls_wait(tls->fd, POLLIN, until);)
        if (recv(tls->fd, bytes, sizeof bytes, MSG_DONTWAIT) <= 0)
            break;
}

bool
vg_wire_tls_read_facts(const char *path, struct vg_wire_tls_facts *facts,
                       char fault[VG_WIRE_TLS_FAULT])
{
    const struct tls_library *gnutls = vg_wire_tls_library(fault, VG_WIRE_TLS_FAULT);
    char *text = gnutls ? calloc(1, TLS_FILE_MAX) : NULL;
    int fd = text ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd < 0 ? -1 : read(fd, text, TLS_FILE_MAX);
    gnutls_x509_crt_t certificate;
    bool ok = false;

    if (gnutls && n < 0)
        snprintf(fault, VG_WIRE_TLS_FAULT, "'%s' cannot be read: %s", path, strerror(errno));
    if (n > 0 && gnutls->gnutls_x509_crt_init(&certificate) == 0) {
        const gnutls_datum_t bytes = {(unsigned char *)text, (unsigned)n};
        int result = gnutls->gnutls_x509_crt_import(certificate, &bytes, GNUTLS_X509_FMT_PEM);
        ok = result == 0;
        if (ok)
            tls_take_facts(gnutls, certificate, facts);
        else
            snprintf(fault, VG_WIRE_TLS_FAULT, "'%s' has no certificate: %s", path,
                     gnutls->gnutls_strerror(result));
        gnutls->gnutls_x509_crt_deinit(certificate);
    } else if (n == 0) {
        snprintf(fault, VG_WIRE_TLS_FAULT, "'%s' has no certificate: the file is empty", path);
    }
    if (fd >= 0)
        close(fd);
    free(text);
    return ok;
}
