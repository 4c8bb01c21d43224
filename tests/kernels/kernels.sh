#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The kernels of Debian's and Ubuntu's archives, each in the emulated host with AMD-V of tests/inner-host. See README.
set -euo pipefail
umask 022
export LC_ALL=C.UTF-8

usage()
{
    cat << 'END'
usage: tests/kernels/kernels.sh COMMAND

  list                 kernels of the archives: NAME, such as 6.12-cloud, and the version of the package. Debian's
                       flavours are cloud, rt and amd64, Ubuntu's are generic, oem and nvidia
  build NAME           fetch this kernel and make its initramfs, unless they are there
  boot NAME DIRECTORY PROGRAM...
                       run the emulator with PROGRAMs in its /usr/bin until the host powers itself off
  unpack DIRECTORY     unpack the results into DIRECTORY/out

The exit status of list and build is 77 where this machine lacks something.

Environment:
  VG_KERNELS_RUN       what the host does (host-run)
  VG_KERNELS_CACHE     for packages and images ($XDG_CACHE_HOME/vgpud/kernels): 200 MB for each kernel
  VG_KERNELS_UBUNTU    Ubuntu's archive (http://archive.ubuntu.com/ubuntu). If it cannot be reached, list has only
                       Debian's kernels
END
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/inner-host/emulator.sh
. "$here/../inner-host/emulator.sh"
cache=${VG_KERNELS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vgpud/kernels}
# Guests always boot this one.
guest_kernel=6.1-cloud
suites='bullseye bookworm bookworm-backports trixie trixie-backports forky'
security='bullseye-security bookworm-security trixie-security'
flavours='cloud rt amd64'
ubuntu=${VG_KERNELS_UBUNTU:-http://archive.ubuntu.com/ubuntu}
ubuntu_suites='focal focal-updates jammy jammy-updates noble noble-updates'
ubuntu_keys=$cache/apt/ubuntu.gpg
# Those that hosts run, and 5.14, which is the series of EL 9.
ubuntu_kernels='5.14-oem 5.15-generic 6.8-generic 6.8-nvidia 6.17-generic 7.0-generic'
modules='virtio_pci virtio_blk kvm-amd'

die()
{
    echo "kernels: $*" >&2
    exit 1
}

lacking()
{
    echo "kernels: $*" >&2
    exit 77
}

# ---- packages ----

# apt with a state of its own, in which nothing is installed: it resolves and fetches only.
archive()
{
    "$1" -q -o "Dir::State=$cache/apt/state" -o "Dir::State::status=$cache/apt/status" \
        -o "Dir::Cache=$cache/apt/cache" -o Dir::Cache::pkgcache=pkgcache.bin \
        -o Dir::Cache::srcpkgcache=srcpkgcache.bin -o "Dir::Etc=$cache/apt/etc" -o Dir::Etc::SourceParts=- \
        -o APT::Sandbox::User=root -o Acquire::Retries=3 "${@:2}"
}

# The mirror that this machine's own apt uses.
mirror()
{
    find /etc/apt -maxdepth 2 '(' -name '*.list' -o -name '*.sources' ')' -exec cat '{}' + |
        sed -nE 's/^URIs: *([^ ]+debian).*/\1/p; s/^deb (\[[^]]*\] )?([^ ]+debian) .*/\2/p' | head -n 1
}

# Prints Debian's newest kernel of each series and flavour: NAME PACKAGE VERSION. With rt, KVM needs a constant TSC,
# which the emulator does not announce; the kernel's parameter setcpuid= adds it since 6.15.
find_debian()
{
    local flavour meta
    for flavour in $flavours; do
        meta=linux-image-$flavour-amd64
        [ "$flavour" != amd64 ] || meta=linux-image-amd64
        archive apt-cache show "$meta" |
            sed -nE 's/^Depends:.*(linux-image-([0-9]+\.[0-9]+)[^ ]*) \(= ([^)]*)\).*/\2 \1 \3/p' |
            sort -k 3 -V | awk -v "flavour=$flavour" '{ last[$1] = $1 "-" flavour " " $2 " " $3 }
                END {
                    for (series in last) {
                        split(series, part, ".")
                        if (flavour != "rt" || part[1] * 100 + part[2] >= 615)
                            print last[series]
                    }
                }'
    done
}

# Prints the same of ubuntu_kernels. A package there has one version, with the number of the build in its name.
find_ubuntu()
{
    local name series package
    for name in $ubuntu_kernels; do
        series=${name%-*}
        package=$(archive apt-cache pkgnames "linux-image-$series." |
            grep -xE "linux-image-${series/./\\.}\.[0-9]+-[0-9]+-${name##*-}" | sort -V | tail -n 1 || true)
        [ -z "$package" ] || archive apt-cache show --no-all-versions "$package" |
            sed -nE "s/^Version: (.*)/$name $package \1/p"
    done
}

# add_sources KEYRING URL SUITE...
add_sources()
{
    printf "deb [signed-by=$1 arch=amd64] $2 %s main\n" "${@:3}" >> "$cache/apt/etc/sources.list"
}

# Gets the keys of Ubuntu's archive, which are in a package of Debian.
fetch_keys()
{
    local work
    work=$(mktemp -d "$cache/apt/keys.XXXXXX")
    (cd "$work" && archive apt-get -qq download ubuntu-keyring && dpkg-deb -x ubuntu-keyring_*.deb . &&
        mv usr/share/keyrings/ubuntu-archive-keyring.gpg "$ubuntu_keys") || true
    rm -r "$work"
}

# Reads the archives. A suite that has left its mirror is no error: what it had is not available.
update_apt()
{
    # shellcheck disable=SC2086 # a list of suites
    [ ! -e "$ubuntu_keys" ] || add_sources "$ubuntu_keys" "$ubuntu" $ubuntu_suites
    archive apt-get -o Acquire::http::Timeout=15 update >&2 || true
}

# The archives are read again after a day. Only one process may do so.
make_apt()
{
    mkdir -p "$cache"
    exec 7> "$cache/apt.lock"
    flock 7
    [ -n "$(find "$cache/apt/kernels" -mtime -1 2> /dev/null)" ] || remake_apt
    exec 7>&-
}

remake_apt()
{
    local url keys=/usr/share/keyrings/debian-archive-keyring.gpg
    url=$(mirror)
    [ -n "$url" ] || lacking "apt knows no mirror of Debian"
    mkdir -p "$cache"/apt/{state/lists/partial,cache/archives/partial} \
        "$cache"/apt/etc/{apt.conf.d,preferences.d,trusted.gpg.d}
    : > "$cache/apt/status"
    : > "$cache/apt/etc/sources.list"
    # shellcheck disable=SC2086 # lists of suites
    add_sources $keys "$url" $suites
    # shellcheck disable=SC2086
    add_sources $keys "$url-security" $security
    update_apt
    if [ ! -e "$ubuntu_keys" ]; then
        fetch_keys
        update_apt
    fi
    find_debian > "$cache/apt/kernels.new"
    [ -s "$cache/apt/kernels.new" ] || lacking "Debian's archive cannot be reached"
    find_ubuntu >> "$cache/apt/kernels.new"
    sort -V "$cache/apt/kernels.new" > "$cache/apt/kernels"
    rm "$cache/apt/kernels.new"
}

list()
{
    make_apt
    awk '{ print $1, $3 }' "$cache/apt/kernels"
}

# find_package NAME: sets package and version.
find_package()
{
    make_apt
    read -r _ package version < <(grep "^$1 " "$cache/apt/kernels") || die "the archives have no kernel $1"
}

# fetch PACKAGE DIRECTORY: downloaded and unpacked, never installed. Since 6.17, parts are packages of their own.
fetch()
{
    local part
    for part in "$1" $(archive apt-cache depends "$1" |
        sed -nE 's/.*Depends: (linux-(base|binary|modules)-[^ ]*)$/\1/p'); do
        (cd "$2" && archive apt-get -qq download "$part") || lacking "cannot fetch $part"
        dpkg-deb -x "$2/$part"_*.deb "$2/packages"
        rm "$2/$part"_*.deb
    done
}

# ---- the image ----

# add_module FROM TO NAME: with those that it depends on; a module may also be built in.
add_module()
{
    local from=$1 to=$2 name=${3//[-_]/[-_]} file plain
    file=$(find "$from/kernel" -name "$name.ko*" | head -n 1)
    if [ -z "$file" ]; then
        grep -qE "/$name\.ko" "$from/modules.builtin" || die "the kernel has no module $3"
        return 0
    fi
    plain=$to/kernel/$(basename "${file%.ko*}").ko
    [ ! -e "$plain" ] || return 0
    case $file in
    *.xz) xz -dc "$file" > "$plain" ;;
    *.zst) zstd -qdc "$file" > "$plain" ;;
    *) cp "$file" "$plain" ;;
    esac
    for name in $(/sbin/modinfo -F depends "$plain" | tr , ' '); do
        add_module "$from" "$to" "$name"
    done
}

add_modules()
{
    local root=$1 from to name
    from=$(find packages -path '*/lib/modules/*' -prune)
    release=$(basename "$from")
    to=$root/lib/modules/$release
    mkdir -p "$to/kernel"
    for name in $modules; do
        add_module "$from" "$to" "$name"
    done
    cp "$from"/modules.{order,builtin,builtin.modinfo} "$to/"
    /sbin/depmod -b "$root" "$release"
}

# The guests' ELF kernel.
make_guest_kernel()
{
    local package version
    [ ! -e "$cache/vmlinux" ] || return 0
    find_package "$guest_kernel"
    mkdir guest
    fetch "$package" guest
    unpack_kernel guest/packages/boot/vmlinuz-* vmlinux
    mv vmlinux "$cache/"
    rm -r guest
}

fingerprint()
{
    {
        cat "$here/kernels.sh" "$inner_host/emulator.sh"
        echo "$1"
        dpkg-query -W qemu-system-x86 busybox-static kmod
    } | sha256sum
}

build()
{
    local name=$1 image=$cache/$1 work want package version
    mkdir -p "$image"
    exec 8> "$cache/lock"
    flock 8
    find_package "$name"
    want=$(fingerprint "$version")
    [ "$(cat "$image/made-from" 2> /dev/null)" != "$want" ] || return 0
    [ "$(df --output=avail -m "$cache" | tail -n 1)" -gt 1500 ] || lacking "less than 1.5 GB are free in $cache"
    rm -f "$image/made-from"
    work=$(mktemp -d "$cache/work.XXXXXX")
    # shellcheck disable=SC2064 # the directory of this call
    trap "rm -rf '$work'" EXIT
    cd "$work"
    fetch "$package" .
    make_guest_kernel
    add_host_programs host
    add_modules host
    cp "$cache/vmlinux" host/guest/
    pack host "$image/host.cpio"
    # Since 7.2, the kernel itself is with its modules.
    mv "$(find packages -path '*/boot/vmlinuz-*' -o -path '*/lib/modules/*/vmlinuz')" "$image/vmlinuz"
    echo "$version" > "$image/version"
    echo "$want" > "$image/made-from"
}

# ---- running it ----

boot()
{
    local name=$1 directory=$2 parameters=''
    shift 2
    case $name in
    *-rt) parameters=setcpuid=constant_tsc ;;
    esac
    [ -f "$cache/$name/made-from" ] || die "there is no image of $name, kernels.sh build $name makes it"
    make_initramfs "$directory" "$cache/$name/host.cpio" "${VG_KERNELS_RUN:-$here/host-run}" "$@"
    run_emulator "$directory" "$cache/$name/vmlinuz" -nic none
}

command=${1-}
[ $# = 0 ] || shift
case $command in
list | build | boot | unpack) "$command" "$@" ;;
-h | --help) usage ;;
*)
    usage >&2
    exit 2
    ;;
esac
