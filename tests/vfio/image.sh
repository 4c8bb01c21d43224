#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes what the emulated hosts of README boot: Debian 13 with libvirt and QEMU as a disk, its
# kernels, and the kernel's sample drivers of mediated devices.
set -euo pipefail
umask 022
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive

usage()
{
    cat << 'END'
usage: tests/vfio/image.sh build | cache

  build    make them, unless they are there (four minutes; 800 MB are downloaded)
  cache    where they are

The exit status of build is 77 where this machine lacks something.

Environment:
  VG_VFIO_CACHE    for what is made ($XDG_CACHE_HOME/vgpud/vfio); 3 GB
END
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${VG_VFIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vgpud/vfio}
base='base-files base-passwd bash coreutils dash grep sed gawk util-linux mount hostname findutils
    tar gzip libc-bin procps'
virtualization='libvirt-daemon libvirt-daemon-driver-qemu libvirt-daemon-driver-nodedev
    libvirt-clients qemu-system-x86 seabios mdevctl udev kmod pciutils iproute2 busybox-static socat'
# Vulkan of hosts and, by Venus, of guests, and what makes programs of it.
vulkan='mesa-vulkan-drivers vulkan-tools virgl-server libvirglrenderer1 qemu-system-modules-opengl
    libegl1 libegl-mesa0 libgbm1 libgl1 libgl1-mesa-dri libvulkan-dev glslang-tools'
# A service and a device of OpenCL for it.
service='systemd pocl-opencl-icd ocl-icd-libopencl1'
drivers='mtty mdpy mbochs'

die()
{
    echo "vfio: $*" >&2
    exit 1
}

# What this machine lacks is no fault of the tree.
lacking()
{
    echo "vfio: $*" >&2
    exit 77
}

# ---- packages ----

# The mirror that this machine's own apt uses.
mirror()
{
    find /etc/apt -maxdepth 2 '(' -name '*.list' -o -name '*.sources' ')' -exec cat '{}' + |
        sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb (\[[^]]*\] )?([^ ]+) .*/\2/p' | head -n 1
}

# apt with a state of its own, in which nothing is installed: it resolves and fetches only.
trixie()
{
    "$1" -q -o "Dir::State=$cache/apt/state" -o "Dir::State::status=$cache/apt/status" \
        -o "Dir::Cache=$cache/apt/cache" -o "Dir::Etc=$cache/apt/etc" -o Dir::Etc::SourceParts=- \
        -o APT::Install-Recommends=false -o APT::Sandbox::User=root -o Acquire::Retries=3 "${@:2}"
}

make_apt()
{
    local url
    url=$(mirror)
    [ -n "$url" ] || lacking "apt knows no mirror of Debian"
    mkdir -p "$cache"/apt/{state/lists/partial,cache/archives/partial} \
        "$cache"/apt/etc/{apt.conf.d,preferences.d,trusted.gpg.d}
    : > "$cache/apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $url trixie main" \
        > "$cache/apt/etc/sources.list"
    trixie apt-get update || lacking "Debian's archive cannot be reached"
}

# fetch PACKAGE...: with all that they depend on; prints their files.
fetch()
{
    local name version
    trixie apt-get -y -d install "$@" >&2 || lacking "cannot fetch $*"
    trixie apt-get -s install "$@" | sed -nE 's/^Inst ([^ ]+) \(([^ ]+) .*/\1 \2/p' |
        while read -r name version; do
            echo "$cache/apt/cache/archives/${name}_${version//:/%3a}"_*.deb
        done
}

# unpack DIRECTORY FILE...: without running what the packages would run. A package must not put a
# directory in the place of /lib, which is a link.
unpack()
{
    local root=$1 file
    shift
    for file; do
        dpkg-deb --fsys-tarfile "$file"
    done | tar -x -i --keep-directory-symlink -C "$root" --exclude='./usr/share/doc/*' \
        --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' \
        --exclude='./usr/share/info/*' --exclude='./usr/share/lintian/*'
}

# make_root: what the packages would have made of each other is done by hand.
make_root()
{
    local name
    # shellcheck disable=SC2086 # lists of words
    fetch $base $virtualization $vulkan $service > packages
    mkdir -p root/usr/{bin,sbin,lib,lib64} root/{proc,sys,dev,tmp,run,root,etc,mnt} \
        root/var/{log,cache,lib}
    for name in bin sbin lib lib64; do
        ln -s "usr/$name" "root/$name"
    done
    # shellcheck disable=SC2046 # no spaces there
    unpack root $(cat packages)
    cp root/usr/share/base-passwd/passwd.master root/etc/passwd
    cp root/usr/share/base-passwd/group.master root/etc/group
    echo 'libvirt-qemu:x:64055:64055::/nonexistent:/bin/false' >> root/etc/passwd
    echo 'libvirt-qemu:x:64055:' >> root/etc/group
    ln -sf gawk root/usr/bin/awk
    rm -rf root/var/run
    ln -s ../run root/var/run
    chroot root ldconfig
}

# ---- kernels ----

# The version that the meta package asks for.
find_version()
{
    version=$(trixie apt-get -s install linux-image-amd64 |
        sed -nE 's/^Inst linux-image-(6[^ ]*-amd64) .*/\1/p' | head -n 1)
    [ -n "$version" ] || lacking "the archive has no linux-image-amd64"
}

# unpack_kernel COMPRESSED FILE: guests boot the bare ELF kernel, which is not unpacked under emulation.
# Behind the compressed kernel is its loader, which is what zstd complains of.
unpack_kernel()
{
    local offset
    offset=$(LC_ALL=C grep -obUaPm1 '\x28\xb5\x2f\xfd' "$1" | head -n 1)
    [ -n "$offset" ] || die "the guests' kernel is not compressed with zstd"
    tail -c "+$((${offset%%:*} + 1))" "$1" | zstd -dcq > "$2" 2> /dev/null || true
    [ "$(head -c 4 "$2")" = $'\x7fELF' ] || die "there is no ELF kernel in $1"
}

# The small one has no virtio-gpu.
fetch_kernels()
{
    local package cloud=linux-image-${version%-amd64}-cloud-amd64
    mkdir host-kernel guest-kernel
    for package in "linux-image-$version" "$cloud" linux-source-6.12; do
        trixie apt-get download "$package" || lacking "cannot fetch $package"
    done
    dpkg-deb -x "linux-image-$version"_*.deb host-kernel
    dpkg-deb -x "$cloud"_*.deb guest-kernel
    unpack_kernel guest-kernel/boot/vmlinuz-* vmlinux
    unpack_kernel "host-kernel/boot/vmlinuz-$version" vmlinux-full
    cp "host-kernel/boot/vmlinuz-$version" vmlinuz
    cp -a host-kernel/usr/lib/modules root/usr/lib/
}

# The sample drivers are compiled by Debian 13's own compiler, in an overlay over the root. With
# pci=ADDRESS their types are those of a PCI function (pci-parent.h).
build_drivers()
{
    local name
    mkdir upper overlay build
    mount -t overlay overlay -o "lowerdir=$PWD/root,upperdir=$PWD/upper,workdir=$PWD/overlay" build
    mounted=$PWD/build
    # shellcheck disable=SC2046 # no spaces there
    unpack build $(fetch "linux-headers-$version" gcc make | grep -vxFf packages)
    chroot build ldconfig
    dpkg-deb --fsys-tarfile linux-source-6.12_*.deb |
        tar -xO --wildcards '*/linux-source-6.12.tar.xz' |
        tar -xJ -C build/tmp --strip-components 2 --wildcards '*/samples/vfio-mdev/*'
    cp "$here/pci-parent.h" build/tmp/vfio-mdev/
    for name in $drivers; do
        sed -i -E -e '1i #include "pci-parent.h"' \
            -e 's/mdev_register_parent\((&[a-z_.]+), (&[a-z_.]+),/mdev_register_parent(\1, pci_parent(\2),/' \
            "build/tmp/vfio-mdev/$name.c"
        echo "obj-m += $name.o"
    done > build/tmp/vfio-mdev/Makefile
    chroot build make -C "/usr/src/linux-headers-$version" M=/tmp/vfio-mdev modules
    mkdir "root/usr/lib/modules/$version/extra"
    cp build/tmp/vfio-mdev/*.ko "root/usr/lib/modules/$version/extra/"
    umount build
    mounted=''
    chroot root depmod "$version"
}

# ---- the image ----

# The initramfs of a host mounts its disk; host.sh adds what it runs.
make_initramfs()
{
    local file
    mkdir -p initramfs/{bin,modules,proc,sys,dev,root}
    cp root/usr/bin/busybox initramfs/bin/
    for file in virtio_pci virtio_blk ext4; do
        chroot root modprobe -S "$version" --show-depends $file
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' |
        while read -r file; do
            cp "root$file" initramfs/modules/
            basename "$file" .xz >> initramfs/modules/order
        done
    xz -qd initramfs/modules/*.xz
    (cd initramfs && find . | cpio -o -H newc -R 0:0 --quiet) > initramfs.cpio
}

make_disk()
{
    mkdir root/guest
    cp vmlinux vmlinux-full root/guest/
    mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=1 -L host -d root disk 3G
}

fingerprint()
{
    cat "$here/image.sh" "$here/pci-parent.h" | sha256sum
}

make_image()
{
    local want name
    [ "$(id -u)" = 0 ] || lacking "needs root"
    for name in zstd xz cpio mke2fs; do
        command -v $name > /dev/null || lacking "no $name"
    done
    mkdir -p "$cache"
    exec 8> "$cache/lock"
    flock 8
    want=$(fingerprint)
    if [ "$(cat "$cache/made-from" 2> /dev/null)" = "$want" ]; then
        return
    fi
    [ "$(df --output=avail -m "$cache" | tail -n 1)" -gt 4000 ] ||
        lacking "less than 4 GB are free in $cache"
    rm -rf "$cache/made-from" "$cache/work"
    mkdir "$cache/work"
    cd "$cache/work"
    trap '[ -z "$mounted" ] || umount "$mounted"' EXIT
    make_apt
    make_root
    find_version
    fetch_kernels
    build_drivers
    make_initramfs
    make_disk
    for name in vmlinuz initramfs.cpio disk root; do
        rm -rf "${cache:?}/$name"
        mv $name "$cache/"
    done
    cd "$cache"
    rm -rf work
    echo "$want" > made-from
}

mounted=''
case ${1-} in
build) make_image ;;
cache) echo "$cache" ;;
-h | --help) usage ;;
*)
    usage >&2
    exit 2
    ;;
esac
