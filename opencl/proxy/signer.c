/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/signer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "opencl/base/say.h"
#include "opencl/proxy/secret.h"

/* Creates a file with a new key atomically. Returns false with errno on failure. */
static bool
signer_make(const char *path)
{
    unsigned char key[PROXY_KEY_MIN];
    char fresh[PATH_MAX];

    if (snprintf(fresh, sizeof fresh, "%s.new", path) >= (int)sizeof fresh) {
        errno = ENAMETOOLONG;
        return false;
    }
    unlink(fresh);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool ok = getrandom(key, sizeof key, 0) == (ssize_t)sizeof key &&
              write(fd, key, sizeof key) == (ssize_t)sizeof key && fsync(fd) == 0;
    explicit_bzero(key, sizeof key);
    close(fd);
    /* If another proxy has created one in the meantime, use that one. */
    if (ok && link(fresh, path) != 0 && errno != EEXIST)
        ok = false;
    int error = errno;
    unlink(fresh);
    errno = error;
    return ok;
}

/* The key is the digest of the file, whose size the operator chooses. */
static bool
signer_read(const struct proxy_signer *signer, const char *path, int fd)
{
    unsigned char bytes[PROXY_KEY_MAX + 1];
    struct vg_sha256 hash;
    ssize_t n = 0, all = 0;
    struct stat st;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        fprintf(stderr, "vgpu-proxy: %s: the binary key is not a regular file\n", path);
        return false;
    }
    while (all < (ssize_t)sizeof bytes &&
           (n = read(fd, bytes + all, sizeof bytes - (size_t)all)) > 0)
        all += n;
    bool ok = n >= 0 && all >= PROXY_KEY_MIN && all <= PROXY_KEY_MAX;
    if (n < 0)
        fprintf(stderr, "vgpu-proxy: %s: %s\n", path, strerror(errno));
    else if (!ok)
        fprintf(stderr, "vgpu-proxy: %s: a binary key must have %d to %d bytes\n", path,
                PROXY_KEY_MIN, PROXY_KEY_MAX);
    vg_sha256_begin(&hash);
    vg_sha256_add(&hash, bytes, ok ? (size_t)all : 0);
    vg_sha256_end(&hash, signer->key);
    explicit_bzero(bytes, sizeof bytes);
    return ok;
}

bool
vg_signer_open(struct proxy_signer *signer, const char *path)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *key = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    signer->key = key == MAP_FAILED ? NULL : key;
    if (!signer->key || madvise(key, page, MADV_DONTFORK) != 0 ||
        madvise(key, page, MADV_DONTDUMP) != 0) {
        fprintf(stderr, "vgpu-proxy: cannot allocate memory for the binary key: %s\n",
                strerror(errno));
        return false;
    }
    if (!path)
        return getrandom(signer->key, VG_SHA256_SIZE, 0) == VG_SHA256_SIZE;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && signer_make(path))
        fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fprintf(stderr, "vgpu-proxy: %s: %s\n", path, strerror(errno));
        return false;
    }
    bool ok = signer_read(signer, path, fd);
    close(fd);
    vg_secret_warn(path, "the binary key");
    return ok;
}

void
vg_signer_sign(const struct proxy_signer *signer, const char *vm, const char *socket,
               const unsigned char digest[VG_SHA256_SIZE], unsigned char mac[VG_SHA256_SIZE])
{
    unsigned char who[VG_SHA256_SIZE];
    struct vg_sha256 hash;

    vg_sha256_begin(&hash);
    vg_sha256_add_text(&hash, vm ? "vm" : "socket", vm ? 2 : 6);
    vg_sha256_add_text(&hash, vm ? vm : socket, strlen(vm ? vm : socket));
    vg_sha256_add(&hash, digest, VG_SHA256_SIZE);
    vg_sha256_end(&hash, who);
    vg_sha256_sign(signer->key, who, sizeof who, mac);
}
