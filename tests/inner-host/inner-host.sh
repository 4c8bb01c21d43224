#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A host with AMD-V, KVM and LTTng in an emulator, in which real KVM guests run; see README.
set -euo pipefail
umask 022
export LC_ALL=C.UTF-8

usage()
{
    cat << 'END'
usage: tests/inner-host/inner-host.sh COMMAND

  build                        make kernel and initramfs, unless they are there
  boot DIRECTORY PORT PROGRAM...
                               run the emulator, with PROGRAMs in its /usr/bin, until the host
                               powers itself off; its console is standard input and output. What
                               it hands out is in DIRECTORY/out afterwards; its port 5344 is PORT
                               of 127.0.0.1
  unpack DIRECTORY             unpack what it has handed out so far
  cache                        where kernel and initramfs are

The exit status of build is 77 where this machine lacks something.

Environment:
  VG_INNER_HOST_RUN            what the host does (host-run)
  VG_INNER_HOST_CACHE          for kernel and initramfs ($XDG_CACHE_HOME/vgpud/inner-host); about
                               1 GB while they are made, 350 MB afterwards
END
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/inner-host/emulator.sh
. "$here/emulator.sh"
cache=${VG_INNER_HOST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vgpud/inner-host}
libexec=/usr/lib/x86_64-linux-gnu
probes='sched|kvm|kvm-x86|statedump'
modules='virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk
    failover net_failover virtio_net irqbypass kvm kvm-amd'

die()
{
    echo "inner-host: $*" >&2
    exit 1
}

# What this machine lacks is no fault of the tree.
lacking()
{
    echo "inner-host: $*" >&2
    exit 77
}

# ---- the kernel and its modules ----

# The version that the meta package of the headers asks for, so that both are of one build.
find_version()
{
    version=$(dpkg-query -W -f='${Depends}' linux-headers-cloud-amd64 2> /dev/null |
        sed -n 's/.*linux-headers-\([^ ,]*-cloud-amd64\).*/\1/p') || true
    [ -n "$version" ] || lacking "linux-headers-cloud-amd64 is not installed"
}

# Downloaded, never installed: their scripts would make boot files, and modules for this machine.
fetch_packages()
{
    local package
    for package in "linux-image-$version" lttng-modules-dkms; do
        apt-get -qq -o APT::Sandbox::User=root download "$package" ||
            lacking "cannot fetch $package from Debian's archive"
        dpkg-deb -x "$package"_*.deb packages
        rm "$package"_*.deb
    done
}

# Of the probes only those that are needed. That of KVM wants headers which only the sources have.
build_lttng()
{
    local source from='\$\(srctree\)' to="\$(KVM_SOURCE)"
    tar -xf /usr/src/linux-source-6.1.tar.xz --strip-components 1 \
        --one-top-level=source --wildcards '*/arch/x86/kvm' '*/virt/kvm'
    source=$(echo "$PWD"/packages/usr/src/lttng-modules-*)
    # LTTng includes them as <../arch/x86/kvm/...>, too: as seen from a directory include/.
    mkdir -p source/include
    sed -i -E -e "/lttng-probe-/{/-($probes)\.o/!s/^[[:blank:]]*obj-/# &/}" \
        -e "s,-I$from/virt/kvm,& -I$to/include," \
        -e "s,$from/(arch/x86/kvm|virt/kvm),$to/\\1," "$source/src/probes/Kbuild"
    make -C "$source" -j "$(nproc)" "KERNELDIR=/usr/src/linux-headers-$version" \
        "KVM_SOURCE=$PWD/source" > lttng-modules.log 2>&1 ||
        { tail -n 30 lttng-modules.log && die "LTTng's modules cannot be built"; }
    [ -f "$source/src/probes/lttng-probe-kvm-x86.ko" ] ||
        die "LTTng's modules were built without the probe of KVM, see $PWD/lttng-modules.log"
}

# add_modules ROOT: where modprobe finds them.
add_modules()
{
    local from=packages/lib/modules/$version to=$1/lib/modules/$version name
    mkdir -p "$to/kernel"
    for name in $modules; do
        find "$from" -name "$name.ko" -exec cp {} "$to/kernel/" \;
        [ -f "$to/kernel/$name.ko" ] || die "the kernel has no module $name"
    done
    find packages/usr/src -name 'lttng-*.ko' ! -name '*test*' -exec cp {} "$to/kernel/" \;
    strip --strip-debug "$to"/kernel/lttng-*.ko
    cp "$from"/modules.{order,builtin,builtin.modinfo} "$to/"
    /sbin/depmod -b "$1" "$version"
}

# ---- the image ----

make_host()
{
    add_host_programs host
    add_program host /usr/bin/lttng /usr/bin/lttng-sessiond /usr/bin/lttng-relayd \
        "$libexec/lttng/libexec/lttng-consumerd" "$libexec"/babeltrace2/plugins/babeltrace-plugin-ctf.so
    # Without it lttng-sessiond ends.
    add_file host /usr/share/xml/lttng/session.xsd
    add_modules host
    cp vmlinux host/guest/
    pack host host.cpio
}

# What the image is made of and by.
fingerprint()
{
    {
        cat "$here/inner-host.sh" "$here/emulator.sh"
        dpkg-query -W linux-headers-cloud-amd64 qemu-system-x86 lttng-tools busybox-static
    } | sha256sum
}

build()
{
    local work want
    find_version
    mkdir -p "$cache"
    exec 8> "$cache/lock"
    flock 8
    want=$(fingerprint)
    if [ "$(cat "$cache/made-from" 2> /dev/null)" = "$want" ]; then
        return
    fi
    [ "$(df --output=avail -m "$cache" | tail -n 1)" -gt 1500 ] ||
        lacking "less than 1.5 GB are free in $cache"
    rm -f "$cache/made-from"
    work=$cache/work
    rm -rf "$work"
    mkdir "$work"
    cd "$work"
    fetch_packages
    cp "packages/boot/vmlinuz-$version" vmlinuz
    unpack_kernel vmlinuz vmlinux
    build_lttng
    make_host
    mv vmlinuz host.cpio "$cache/"
    cd "$cache"
    rm -rf "$work"
    echo "$want" > made-from
}

# ---- running it ----

boot()
{
    local directory=$1 port=$2
    shift 2
    [ -f "$cache/made-from" ] || die "there is no image, inner-host.sh build makes it"
    make_initramfs "$directory" "$cache/host.cpio" "${VG_INNER_HOST_RUN:-$here/host-run}" "$@"
    run_emulator "$directory" "$cache/vmlinuz" \
        -nic "user,model=virtio,restrict=on,hostfwd=tcp:127.0.0.1:$port-:5344"
}

command=${1-}
[ $# = 0 ] || shift
case $command in
build | boot | unpack) "$command" "$@" ;;
cache) echo "$cache" ;;
-h | --help) usage ;;
*)
    usage >&2
    exit 2
    ;;
esac
