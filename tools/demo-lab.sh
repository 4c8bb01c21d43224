# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # variables of those who source it
# Two libvirt hosts in namespaces of this machine, each with its vgpud: what the demos that move a VM share.
# Sourced after common.sh. The demo sets out, a directory of its own for logs, run, one for what goes with the
# hosts, LAB_DIR, LAB_NET and XDG_CONFIG_HOME.

# quietly COMMAND...: its output goes into a log, which is shown if it fails. Ctrl-C does not interrupt
# it halfway; the demo ends after it.
quietly()
{
    if ! (trap '' INT HUP && exec "$@") >> "$out/setup.log" 2>&1 < /dev/null 9>&-; then
        echo "This command failed: $*"
        show_log "$out/setup.log"
        return 1
    fi
}

lab()
{
    quietly tests/lab/lab.sh "$@"
}

# wait_for WHAT COMMAND...: until it succeeds.
wait_for()
{
    local what=$1 host i
    shift
    for ((i = 0; i < 600; i++)); do
        if "$@" > /dev/null 2>&1; then
            return 0
        fi
        # Both vgpuds run, or it will never be.
        [ "$(jobs -pr | wc -l)" = 2 ] || break
        sleep 0.1
    done
    echo "Timed out while waiting until $what. The logs of the two vgpuds:"
    for host in h1 h2; do
        cp "$run/$host/log" "$out/vgpud-$host.log"
        show_log "$out/vgpud-$host.log" 10
    done
    return 1
}

# ---- starting and stopping ----

# Whatever runs in a host goes with it.
clean_up()
{
    trap '' INT TERM HUP
    if lab down; then
        wait
        rm -rf "$run"
    fi
}

address()
{
    echo "$LAB_NET.${1#h}"
}

make_certificates()
{
    local host
    (
        cd "$run"
        printf '%s\n' 'cn = "demo CA"' ca cert_signing_key 'expiration_days = 2' > ca.tmpl
        certtool --generate-privkey --key-type ecdsa --outfile ca.key
        certtool --generate-self-signed --load-privkey ca.key --template ca.tmpl --outfile ca.pem
        for host in h1 h2; do
            mkdir $host
            printf '%s\n' "cn = \"$host\"" "ip_address = \"$(address $host)\"" tls_www_server \
                'expiration_days = 2' > $host/tmpl
            certtool --generate-privkey --key-type ecdsa --outfile $host/key
            certtool --generate-certificate --load-privkey $host/key --load-ca-privkey ca.key \
                --load-ca-certificate ca.pem --template $host/tmpl --outfile $host/pem
        done
    ) > "$out/certtool.log" 2>&1 || {
        show_log "$out/certtool.log"
        return 1
    }
}

# write_config HOST OTHER: the groups at the end are what a move needs.
write_config()
{
    local host=$1 other=$2
    cat > "$run/$host/vgpud.conf" << END
[api]
listen=$(address "$host"):8447
tls_certificate=$run/$host/pem
tls_key=$run/$host/key

[libvirt]
use=yes
poll=1s

[live]
use=no

[peers]
refresh=1s

[actions]
enabled=yes
bandwidth=20

[gpu standin]
device_xml=$PWD/tests/lab/gpu.xml

[peer $other]
url=https://$(address "$other"):8447
cacert=$run/ca.pem
token_file=$run/$other/token.$host
libvirt_uri=qemu+tcp://$other/system
END
}

start_vgpud()
{
    local host=$1
    tests/lab/lab.sh exec "$host" "$PWD/build/vgpud" --config "$run/$host/vgpud.conf" \
        --socket "$run/$host/sock" --state-dir "$run/$host/state" \
        < /dev/null > "$run/$host/log" 2>&1 9>&- &
}

# make_token HOST NAME: with it NAME may move VMs of HOST.
make_token()
{
    (umask 077 && build/vgpuctl token create "$2" --role operator --socket "$run/$1/sock" \
        > "$run/$1/token.$2") 2>> "$out/setup.log"
}

# ask HOST ARGUMENT...: its vgpud.
ask()
{
    local host=$1
    shift
    build/vgpuctl "$@" --context "$host"
}

sees()
{
    ask "$1" peer list -o json | grep -q '"state": *"reachable"'
}

start_hosts()
{
    local host
    : > "$out/setup.log"
    # What a run that was killed, or kept, has left.
    lab down
    # The tests have the guest's kernel, too.
    if [ ! -e "$LAB_DIR/kernel/ok" ] && [ -e build/lab/kernel/ok ]; then
        ln -sfn ../../lab/kernel "$LAB_DIR/kernel"
    fi
    lab up 2
    make_certificates
    write_config h1 h2
    write_config h2 h1
    mkdir -p "$XDG_CONFIG_HOME/vgpuctl"
    for host in h1 h2; do
        start_vgpud $host
        printf '[context %s]\nserver=https://%s:8447\ncacert=%s\ntoken-file=%s\n' $host \
            "$(address $host)" "$run/ca.pem" "$run/$host/token.you" >> "$XDG_CONFIG_HOME/vgpuctl/config"
    done
    for host in h1 h2; do
        wait_for "the vgpud of $host answers" build/vgpuctl host show --socket "$run/$host/sock"
        make_token $host you
    done
    make_token h1 h2
    make_token h2 h1
}

# tell LINE...: below the last output.
tell()
{
    printf '%s\n' "$@"
}

# list_vms HOST: as libvirt has them. Without the terminal, on which virsh misses polkit.
list_vms()
{
    local uri
    uri=qemu+tcp://$(address "$1")/system
    echo "\$ virsh -c $uri list --all"
    setsid --wait virsh -c "$uri" list --all
}

# newest_move HOST: the name of the newest move that its vgpud has made.
newest_move()
{
    ask "$1" migration list -o json | sed -n '/"id"/{s/.*"id": *"\([^"]*\)".*/\1/p;q}'
}
