#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Virtual libvirt hosts on one machine: each is a set of namespaces with a real libvirtd, or libvirt's modular
# daemons, whose guests are real QEMUs (without KVM).
set -euo pipefail
umask 022
# For fake-gpus: libudev then takes a /sys that is not sysfs.
export SYSTEMD_DEVICE_VERIFY_SYSFS=0
export LC_ALL=C.UTF-8

usage()
{
    cat << 'END'
usage: tests/lab/lab.sh COMMAND

  up [N] [--cpus]                    start N hosts (2): h1 h2 ...; --cpus: and cpus on
  add HOST                           start one more, h3 to h9
  down                               stop them, and nothing else
  status                             hosts, the pids of their pid 1, URIs, guests
  uri HOST                           connection URI for outside of the host
  virsh HOST ARGUMENT...             virsh inside of the host (qemu:///system)
  exec HOST COMMAND...               a command in the host's namespaces
  daemon HOST stop|kill|start|hang|resume [NAME]
                                     the host's libvirtd, or all its modular daemons, or the one of that name
  cpus on|off                        libvirtd and guests of h1 run on CPU 0 only, those of other hosts on
                                     CPU 1 only; or on all CPUs again
  network HOST drop|deaf|mute|mend   nothing gets from it or to it; nothing gets to it; nothing of its libvirtd
                                     gets to others; all gets through again
  network HOST drops|slow            most of what is sent to it is lost, or takes long
  network HOST pin                   from now on, nobody finds out that it is not there
  guest HOST [NAME [MIB [DEVICES]]]  define and start a guest, wait until it is up
  gpu HOST attach|detach NAME        plug a stand-in for a GPU into a guest, or out
  tell HOST NAME LINE                have the guest do something (guest-agent), print its answer
  migrate FROM TO NAME [OPTION...]   live migration, options of virsh

Environment:
  LAB_DIR      state, and the guest's kernel once it was fetched ($TMPDIR/vgpud-lab)
  LAB_NET      first three bytes of the network (10.66.0)
  LAB_LIBVIRT  where modular-libvirt has put modular daemons, which then run instead of libvirtd
  LAB_GPUS     GPUs with mediated devices in each host's /sys (0)
  LAB_KERNEL   a vmlinuz, with LAB_MODULES, its lib/modules/VERSION (fetched by apt-get)
  LAB_AGENT    a static program to be run in the guest instead of guest-agent, for what tests ask
  LAB_GUESTD   the vgpu-guestd of the guest (that of build/, if it is built)
END
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=${LAB_DIR:-${TMPDIR:-/tmp}/vgpud-lab}
net=${LAB_NET:-10.66.0}
bridge=${net#*.}
bridge=vlab${bridge//./-}
# In the order of their start. The last one listens for other hosts.
daemons=(libvirtd) sbin=''
if [ -n "${LAB_LIBVIRT-}" ]; then
    daemons=(virtnodedevd virtqemud virtproxyd) sbin=$LAB_LIBVIRT/sbin/
fi

die()
{
    echo "lab: $*" >&2
    exit 1
}

# ---- processes ----
# A host is one pid namespace. Its record is "pid start-time"; a pid is ours only while its start
# time is the recorded one.

# start_time PID: of a living process.
start_time()
{
    local stat
    local -a fields
    stat=$(cat "/proc/$1/stat" 2> /dev/null) || return 1
    read -ra fields <<< "${stat##*) }"
    [ "${fields[0]}" != Z ] && echo "${fields[19]}"
}

alive()
{
    local pid time
    [ -r "$lab/$1/pid" ] && read -r pid time < "$lab/$1/pid" && [ -n "$time" ] &&
        [ "$(start_time "$pid" || true)" = "$time" ]
}

# namespace_pid HOST: pid 1 of the host, as seen from outside.
namespace_pid()
{
    local pid
    alive "$1" || die "host $1 is not up"
    read -r pid _ < "$lab/$1/pid"
    cut -d ' ' -f 1 "/proc/$pid/task/$pid/children"
}

hosts()
{
    local dir
    for dir in "$lab"/h[0-9]*/; do
        [ ! -d "$dir" ] || basename "$dir"
    done
}

inside()
{
    local pid
    pid=$(namespace_pid "$1")
    shift
    nsenter -t "$pid" -m -u -n -i -p -- "$@"
}

address()
{
    echo "$net.${1#h}"
}

uri()
{
    echo "qemu+tcp://$(address "$1")/system"
}

# ---- the guest's kernel and initramfs ----

# kernel_packages: the one of the kernel, and on Ubuntu that of its modules. Nothing, if apt-get update has
# not run yet.
kernel_packages()
{
    local name kernel
    for name in linux-image-cloud-amd64 linux-image-virtual; do
        kernel=$(depends_on "$name" linux-image-)
        if [ -n "$kernel" ]; then
            echo "$kernel"
            depends_on "$kernel" linux-modules-
            return
        fi
    done
}

# depends_on PACKAGE PREFIX: the first package of such a name that it depends on.
depends_on()
{
    apt-cache depends "$1" 2> /dev/null | sed -n "s/.*Depends: *\\($2[^ ]*\\)/\\1/p" | head -n 1 || true
}

# Downloaded, never installed.
fetch_kernel()
{
    local -a packages
    local file
    if [ -e "$lab/kernel/ok" ]; then
        return
    fi
    rm -rf "$lab/kernel"
    mkdir -p "$lab/kernel"
    mapfile -t packages < <(kernel_packages)
    if [ ${#packages[@]} = 0 ]; then
        apt-get -qq update
        mapfile -t packages < <(kernel_packages)
    fi
    [ ${#packages[@]} != 0 ] || die "apt-cache knows no linux-image-cloud-amd64 or linux-image-virtual"
    (cd "$lab/kernel" && apt-get -qq -o APT::Sandbox::User=root download "${packages[@]}" &&
        for file in ./*.deb; do dpkg-deb -x "$file" . || exit; done && rm ./*.deb) ||
        die "cannot fetch ${packages[*]}"
    touch "$lab/kernel/ok"
}

# newer FILE OTHER...: is it there, and newer than the others?
newer()
{
    local file=$1 other
    shift
    for other; do
        [ "$file" -nt "$other" ] || return 1
    done
}

# add_program ROOT FILE PATH: with the libraries that it wants.
add_program()
{
    local file
    install -D -m 755 "$2" "$1$3"
    for file in $(ldd "$2" | grep -o '/[^ ]*'); do
        install -D -m 755 "$file" "$1$file"
    done
}

# add_guestd ROOT: the agent, hooks that say what they do, and a driver of CUDA that is made up.
add_guestd()
{
    local root=$1 phase
    add_program "$root" "$guestd" /usr/sbin/vgpu-guestd
    if [ -e "$fake/fake-cuda.so" ]; then
        install -D -m 755 "$here/guest-cuda" "$root/cuda/guest-cuda"
        add_program "$root" "$fake/fake-cuda-worker" /cuda/bin/fake-cuda-worker
        add_program "$root" "$fake/fake-cuda.so" /cuda/lib/libcuda.so.1
        ln -s libcuda.so.1 "$root/cuda/lib/libnvidia-ml.so.1"
    fi
    for phase in prepare resume; do
        install -D -m 755 "$here/guest-hook" "$root/etc/vgpud/guest-hooks.d/$phase/10-lab"
    done
}

# add_opencl ROOT: the library between programs and their OpenCL, a vendor's that is made up, and a program.
# All else that they need is on the disk of opencl-image.
add_opencl()
{
    local root=$1 file
    install -D -m 755 "$here/guest-opencl" "$root/opencl/guest-opencl"
    for file in "${opencl[@]}"; do
        # A demo builds only what it needs.
        [ ! -e "$file" ] || install -m 755 "$file" "$root/opencl"
    done
}

make_image()
{
    local image=$lab/image kernel=${LAB_KERNEL-} modules=${LAB_MODULES-} root name
    local agent=${LAB_AGENT:-$here/guest-agent} guestd=${LAB_GUESTD:-$here/../../build/vgpu-guestd}
    local fake=${guestd%/*}/tests/guest build=${guestd%/*}
    local -a opencl=("$build/libvgpu-opencl.so" "$build/tests/opencl/leaky-vendor.so"
        "$build/tests/opencl/waves" "$build/tests/opencl/frames" "$build/tests/opencl/random-calls"
        "$build/vgpu-proxy")
    local -a parts=("$here/guest-init" "$here/guest-hook" "$here/guest-cuda" "$here/guest-qemu" "$agent")
    if [ -x "$guestd" ]; then
        parts+=("$guestd")
        [ ! -e "$fake/fake-cuda.so" ] || parts+=("$fake/fake-cuda.so" "$fake/fake-cuda-worker")
        [ ! -e "${opencl[2]}" ] || parts+=("$here/guest-opencl" "${opencl[@]}")
    else
        guestd=''
    fi
    if [ -z "$kernel" ]; then
        fetch_kernel
        kernel=$(echo "$lab"/kernel/boot/vmlinuz-*)
        # In /usr since Debian 13.
        modules=$(find "$lab"/kernel/ -path '*/lib/modules/*' -prune)
    fi
    [ -n "$modules" ] || die "LAB_MODULES is needed with LAB_KERNEL"
    if newer "$image/initrd" "${parts[@]}" && newer "$image/vmlinuz" "$kernel"; then
        return
    fi
    mkdir -p "$image"
    root=$(mktemp -d "$lab/root.XXXXXX")
    mkdir -p "$root"/{bin,proc,sys,dev,mod,run,tmp}
    cp "$(command -v busybox)" "$root/bin/busybox"
    "$root/bin/busybox" --install "$root/bin"
    for name in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci \
        virtio_console virtio-rng virtio_blk failover net_failover virtio_net; do
        find "$modules" -name "$name.ko*" -exec cp {} "$root/mod/" \;
    done
    find "$root/mod" -name '*.xz' -exec xz -d {} +
    find "$root/mod" -name '*.zst' -exec zstd -q -d --rm {} +
    install -m 755 "$here/guest-init" "$root/init"
    install -m 755 "$agent" "$root/agent"
    [ -z "$guestd" ] || add_guestd "$root"
    [ -z "$guestd" ] || [ ! -e "${opencl[2]}" ] || add_opencl "$root"
    (cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) > "$image/initrd.new"
    rm -r "$root"
    cp "$kernel" "$image/vmlinuz"
    install -m 755 "$here/guest-qemu" "$image/qemu"
    mv "$image/initrd.new" "$image/initrd"
    touch "$image/vmlinuz" "$image/initrd"
}

# ---- hosts ----

# write_config HOST: what it finds in /etc.
write_config()
{
    local host=$1 etc=$lab/$1/etc i file
    mkdir -p "$etc" "$lab/$host"/{lib,cache,log/qemu,run}
    for file in "${daemons[@]}"; do
        cat > "$etc/$file.conf" << END
auth_unix_rw = "none"
auth_unix_ro = "none"
host_uuid = "$(printf '00000000-0000-4000-8000-%012d' "${host#h}")"
keepalive_interval = 1
keepalive_count = 3
log_outputs = "3:file:/var/log/libvirt/$file.log"
END
    done
    cat >> "$etc/${daemons[-1]}.conf" << END
listen_tls = 0
listen_tcp = 1
listen_addr = "$(address "$host")"
auth_tcp = "none"
END
    cat > "$etc/qemu.conf" << END
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = [ ]
cgroup_controllers = [ ]
stdio_handler = "file"
migration_host = "$(address "$host")"
migration_address = "$(address "$host")"
keepalive_interval = 1
keepalive_count = 3
max_core = 0
END
    : > "$etc/libvirt.conf"
    # libvirtd insists on this user, whatever qemu.conf says.
    for file in passwd group; do
        cp "/etc/$file" "$lab/$host/$file"
    done
    grep -q ^libvirt-qemu: /etc/passwd ||
        echo 'libvirt-qemu:x:64055:64055::/var/lib/libvirt:/usr/sbin/nologin' \
            >> "$lab/$host/passwd"
    grep -q ^libvirt-qemu: /etc/group || echo 'libvirt-qemu:x:64055:' >> "$lab/$host/group"
    echo '127.0.0.1 localhost' > "$lab/$host/hosts"
    for i in {1..9}; do
        echo "$net.$i h$i" >> "$lab/$host/hosts"
    done
}

# start_command NAME: sets words, the command that starts this daemon.
start_command()
{
    words=("$sbin$1" --daemon --config "/etc/libvirt/$1.conf" --pid-file "/run/$1.pid")
    # virtproxyd listens by its configuration.
    [ "$1" != libvirtd ] || words+=(--listen)
}

# Runs as pid 1 of the host.
boot()
{
    local host=$1 pair file
    local -a words
    hostname "$host"
    # A sysfs of its own shows its own network, and no cgroups.
    umount -R -l /sys
    mount -t sysfs sysfs /sys
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir -p /run/libvirt /run/lock
    if [ "${LAB_GPUS:-0}" != 0 ]; then
        bash "$here/fake-gpus" /run/sys "$LAB_GPUS"
        mount --move /run/sys /sys
    fi
    for pair in etc:/etc/libvirt lib:/var/lib/libvirt cache:/var/cache/libvirt \
        log:/var/log/libvirt run:/run/libvirt; do
        mount --bind "$lab/$host/${pair%%:*}" "${pair#*:}"
    done
    mkdir -p /var/lib/libvirt/boot
    mount --bind "$lab/image" /var/lib/libvirt/boot
    for file in hosts passwd group; do
        mount --bind "$lab/$host/$file" "/etc/$file"
    done
    until ip link show eth0 > /dev/null 2>&1; do
        sleep 0.02
    done
    ip link set lo up
    ip link set eth0 up
    ip addr add "$(address "$host")/24" dev eth0
    for file in "${daemons[@]}"; do
        start_command "$file"
        "${words[@]}"
    done
    touch "$lab/$host/run/ready"
    # bash reaps what is left to pid 1.
    sleep infinity &
    wait
}

start_host()
{
    local host=$1 pid child='' i
    setsid unshare --mount --uts --net --ipc --pid --fork --kill-child --mount-proc \
        bash "${BASH_SOURCE[0]}" boot-host "$host" < /dev/null > "$lab/$host/log/boot.log" 2>&1 &
    pid=$!
    echo "$pid $(start_time $pid)" > "$lab/$host/pid"
    for ((i = 0; i < 100; i++)); do
        child=$(cut -d ' ' -f 1 "/proc/$pid/task/$pid/children" 2> /dev/null || true)
        [ -z "$child" ] || break
        sleep 0.02
    done
    [ -n "$child" ] || die "$host: no namespaces"
    ip link add "$bridge-$host" type veth peer name eth0 netns "$child"
    ip link set "$bridge-$host" master "$bridge" up
}

wait_for_host()
{
    local host=$1 i
    for ((i = 0; i < 300; i++)); do
        [ ! -e "$lab/$host/run/ready" ] || break
        alive "$host" || break
        sleep 0.05
    done
    virsh -q -c "$(uri "$host")" hostname > /dev/null ||
        die "$host does not answer, see $lab/$host/log"
}

# ---- CPUs ----
# A cpuset confines everything in the pid namespace of a host, and what that starts. libvirtd sets the
# affinity of its guests itself, which cannot leave the cpuset.

# cpuset HOST: its directory, in the hierarchy that this machine has.
cpuset()
{
    local root=/sys/fs/cgroup
    if [ -e $root/cgroup.controllers ]; then
        grep -qw cpuset $root/cgroup.controllers || die "the kernel has no cpuset controller"
        echo +cpuset > $root/cgroup.subtree_control
    else
        root=$root/cpuset
        [ -e $root/cpuset.cpus ] || die "the cpuset controller is not mounted in /sys/fs/cgroup"
    fi
    echo "$root/$bridge-$1"
}

# processes HOST: their pids, as seen from outside.
processes()
{
    local space pid
    space=$(readlink "/proc/$(namespace_pid "$1")/ns/pid")
    for pid in /proc/[0-9]*; do
        [ "$(readlink "$pid/ns/pid" 2> /dev/null)" != "$space" ] || echo "${pid#/proc/}"
    done
}

# put DIRECTORY PID...: processes that have ended meanwhile do not count.
put()
{
    local dir=$1 pid
    shift
    for pid; do
        echo "$pid" > "$dir/cgroup.procs" 2> /dev/null || [ ! -e "/proc/$pid" ] ||
            die "process $pid does not get into $dir"
    done
}

# confine HOST
confine()
{
    local dir cpu=1
    [ "$1" != h1 ] || cpu=0
    dir=$(cpuset "$1")
    mkdir -p "$dir"
    echo $cpu > "$dir/cpuset.cpus" || die "no CPU $cpu"
    # An own list of memory nodes is needed before version 2.
    [ -e /sys/fs/cgroup/cgroup.controllers ] || cat "${dir%/*}/cpuset.mems" > "$dir/cpuset.mems"
    # shellcheck disable=SC2046
    put "$dir" $(processes "$1")
}

# release HOST: nothing if it is not confined.
release()
{
    local dir
    dir=$(cpuset "$1")
    [ -d "$dir" ] || return 0
    # shellcheck disable=SC2046
    put "${dir%/*}" $(cat "$dir/cgroup.procs")
    # Those that were killed may take a moment.
    until rmdir "$dir" 2> /dev/null; do
        sleep 0.05
    done
}

# as_confined HOST COMMAND...: a process of this script runs where the host's libvirtd runs.
as_confined()
{
    local dir
    if [ -e "$lab/cpus" ]; then
        dir=$(cpuset "$1")
        put "$dir" "$BASHPID"
    fi
    shift
    "$@"
}

cpus()
{
    local host
    case $1 in
    on)
        touch "$lab/cpus"
        for host in $(hosts); do
            confine "$host"
        done
        ;;
    off)
        rm -f "$lab/cpus"
        for host in $(hosts); do
            release "$host"
        done
        ;;
    *) die "cpus on|off" ;;
    esac
}

up()
{
    local count=2 word=off host i
    for i; do
        case $i in
        --cpus) word=on ;;
        *) count=$i ;;
        esac
    done
    [ "$(id -u)" = 0 ] || die "needs root"
    for i in "${daemons[@]/#/$sbin}" virsh qemu-system-x86_64 busybox cpio ip nsenter unshare; do
        command -v "$i" > /dev/null || die "no $i"
    done
    for host in $(hosts); do
        ! alive "$host" || die "already up, lab.sh down first"
        rm -rf "${lab:?}/$host"
    done
    # All but the first are places for mounts.
    mkdir -p "$lab" /etc/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt
    [ -e /etc/hosts ] || touch /etc/hosts
    make_image
    ip link add "$bridge" type bridge
    # What has to go, whatever LAB_NET is then.
    echo "$bridge" > "$lab/bridge"
    ip addr add "$net.254/24" dev "$bridge"
    ip link set "$bridge" up
    for ((i = 1; i <= count; i++)); do
        write_config "h$i"
        start_host "h$i"
    done
    for ((i = 1; i <= count; i++)); do
        wait_for_host "h$i"
    done
    [ $word = off ] || cpus on
    status
}

add()
{
    [[ $1 =~ ^h[3-9]$ ]] || die "add h3 to h9"
    ! alive "$1" || return 0
    rm -rf "${lab:?}/$1"
    write_config "$1"
    start_host "$1"
    wait_for_host "$1"
    [ ! -e "$lab/cpus" ] || confine "$1"
}

down()
{
    local host pid child
    [ ! -s "$lab/bridge" ] || read -r bridge < "$lab/bridge"
    for host in $(hosts); do
        if alive "$host"; then
            child=$(namespace_pid "$host")
            read -r pid _ < "$lab/$host/pid"
            # --kill-child: everything in the pid namespace goes with it.
            kill -KILL "$pid"
            while start_time "$child" > /dev/null; do
                sleep 0.02
            done
        fi
        [ ! -e "$lab/cpus" ] || release "$host"
        rm -f "$lab/$host/pid"
        ip link del "$bridge-$host" 2> /dev/null || true
    done
    if [ -e "$lab/bridge" ]; then
        ip link del "$bridge" 2> /dev/null || true
        rm "$lab/bridge"
    fi
    rm -f "$lab/cpus"
}

status()
{
    local host
    for host in $(hosts); do
        if alive "$host"; then
            echo "$host init=$(namespace_pid "$host") $(uri "$host")" \
                "$(virsh -q -c "$(uri "$host")" list --all 2>&1 | tr -s ' \n' ' ')"
        else
            echo "$host down"
        fi
    done
}

daemon()
{
    local name pid_file
    local -a words
    for name in ${3:-"${daemons[@]}"}; do
        pid_file=/run/$name.pid
        case $2 in
        start)
            ! inside "$1" sh -c "kill -0 \$(cat $pid_file)" 2> /dev/null || continue
            start_command "$name"
            # Also with the devices of fake-vfio.c.
            # shellcheck disable=SC2016 # the inner shell expands these
            (as_confined "$1" inside "$1" sh -c '[ ! -e /run/fake-vfio.so ] || export LD_PRELOAD=/run/fake-vfio.so
                exec "$@"' sh "${words[@]}")
            ;;
        stop) inside "$1" sh -c "kill \$(cat $pid_file); while [ -e $pid_file ]; do sleep 0.05; done" ;;
        kill) inside "$1" sh -c "pid=\$(cat $pid_file); while kill -KILL \$pid 2> /dev/null; do sleep 0.05; done" ;;
        hang) inside "$1" sh -c "kill -STOP \$(cat $pid_file)" ;;
        resume) inside "$1" sh -c "kill -CONT \$(cat $pid_file)" ;;
        *) die "daemon HOST stop|kill|start|hang|resume [NAME]" ;;
        esac
    done
}

# know_address HOST OTHER: the host sends without asking whether the other one is there.
know_address()
{
    local mac
    mac=$(inside "$2" cat /sys/class/net/eth0/address)
    inside "$1" ip neigh replace "$(address "$2")" lladdr "$mac" nud permanent dev eth0
}

# know_addresses HOST: it and all others, of each other.
know_addresses()
{
    local other
    for other in $(hosts); do
        if [ "$other" != "$1" ]; then
            know_address "$1" "$other"
            know_address "$other" "$1"
        fi
    done
}

network()
{
    local port=$bridge-$1 host
    case $2 in
    pin) know_addresses "$1" ;;
    drop) bridge link set dev "$port" state 0 ;;
    # No packet is small enough.
    # Of what gets to it, most is lost; or it takes its time.
    drops) tc qdisc add dev "$port" root tbf rate 300kbit burst 3000b limit 3000b ;;
    slow) tc qdisc add dev "$port" root tbf rate 2mbit burst 16kb limit 512kb ;;
    deaf) tc qdisc add dev "$port" root tbf rate 8bit burst 1b limit 1b ;;
    mute) inside "$1" ip rule add pref 1 ipproto tcp sport 16509 blackhole ;;
    mend)
        inside "$1" ip rule del pref 1 2> /dev/null || true
        tc qdisc del dev "$port" root 2> /dev/null || true
        bridge link set dev "$port" state 3
        for host in $(hosts); do
            inside "$host" ip neigh flush dev eth0 nud permanent
        done
        ;;
    *) die "network HOST drop|deaf|mute|drops|slow|mend|pin" ;;
    esac
}

# ---- guests ----

guest()
{
    local host=$1 name=${2:-guest0} mib=${3:-160} devices=${4:-} console sum uuid i
    sum=$(printf %s "$name" | cksum)
    # The same on every host, or it could not come back.
    uuid=$(printf '00000000-0000-4000-9000-%012x' "${sum% *}")
    sed -e "s/@NAME@/$name/g" -e "s/@UUID@/$uuid/" -e "s/@MIB@/$mib/g" \
        -e "s|@DEVICES@|$devices|" "$here/guest.xml.in" \
        > "$lab/$host/lib/$name.xml"
    console=$lab/$host/log/qemu/$name.console
    rm -f "$console"
    inside "$host" virsh -q define "/var/lib/libvirt/$name.xml"
    inside "$host" virsh -q start "$name"
    # As long as a busy machine may take.
    for ((i = 0; i < 900; i++)); do
        if grep -qs GUEST-READY "$console"; then
            grep -o 'GUEST-READY.*' "$console"
            return
        fi
        sleep 0.2
    done
    die "$name did not come up, see $console"
}

gpu()
{
    inside "$1" virsh -q "$2-device" "$3" /dev/stdin --live < "$here/gpu.xml"
}

tell()
{
    local path
    path=$(inside "$1" virsh -q dumpxml "$2" |
        sed -n "s/.*path='\([^']*\/org\.vgpud\.test\.0\)'.*/\1/p")
    [ -n "$path" ] || die "$2 does not run on $1"
    inside "$1" /usr/bin/python3 -c 'import socket, sys
with socket.socket(socket.AF_UNIX) as guest:
    guest.settimeout(120)
    guest.connect(sys.argv[1])
    guest.sendall(sys.argv[2].encode() + b"\n")
    answer = guest.makefile().readline().rstrip()
print(answer)
sys.exit(not answer.startswith("ok"))' "$path" "$3"
}

migrate()
{
    local from=$1 to=$2 name=$3
    shift 3
    inside "$from" virsh migrate --live --p2p --persistent --undefinesource "$@" "$name" \
        "$(uri "$to")"
}

command=${1-}
[ $# = 0 ] || shift
case $command in
up | add | down | status | uri | daemon | cpus | network | guest | gpu | tell | migrate) "$command" "$@" ;;
virsh)
    host=$1
    shift
    inside "$host" virsh "$@"
    ;;
exec) inside "$@" ;;
boot-host) boot "$@" ;;
-h | --help) usage ;;
*)
    usage >&2
    exit 2
    ;;
esac
