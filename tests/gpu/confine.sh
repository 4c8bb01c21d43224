#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# vgpu-proxy confines its clients' processes on a machine with a real GPU, and programs get what they get without it:
#   tests/gpu/confine.sh [BUILD]
# It needs the vendor's OpenCL in /etc/OpenCL/vendors, libOpenCL.so.1 and Python; and as root it repeats all as nobody.
# After a FAIL it shows what was denied: files by tests/gpu/denied.c (gcc), system calls by --strict.
build=$(realpath "${1:-build}") here=$(dirname "$(readlink -f "$0")") failed=0
vendors=${VENDORS:-/etc/OpenCL/vendors}
vendor=$(cat "$vendors"/*.icd | head -1)
dir=$(mktemp -d) || exit 99
chmod 755 "$dir"
trap 'kill "$proxy" 2> /dev/null; rm -rf "$dir"' EXIT
cat > "$dir/compile.py" << 'END'
import ctypes, sys
P = ctypes.c_void_p
cl = ctypes.CDLL("libOpenCL.so.1")
for name in ("Context", "ProgramWithSource"):
    getattr(cl, "clCreate" + name).restype = P
platform, device, size = P(), P(), ctypes.c_size_t()
assert cl.clGetPlatformIDs(1, ctypes.byref(platform), None) == 0
assert cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None) == 0
context = P(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
def build(text, options):
    source = ctypes.c_char_p(text.encode())
    program = P(cl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, None))
    error = cl.clBuildProgram(program, 1, ctypes.byref(device), options.encode(), None, None)
    log = ctypes.create_string_buffer(65536)
    cl.clGetProgramBuildInfo(program, device, 0x1183, ctypes.c_size_t(65536), log, ctypes.byref(size))
    return error, log.value.decode("latin-1")
if sys.argv[1] == "include":
    for text in ('kernel void k(global int *a) { a[0] =\n#include "%s"\n; }', '#include "%s"\nkernel void k() {}'):
        print(build(text % sys.argv[2], ""))
    print(build('kernel void k(global int *a) { a[0] =\n#include "%s"\n; }' % sys.argv[2].split("/")[-1],
                "-I " + sys.argv[2].rsplit("/", 1)[0]))
    sys.exit()
# As hashcat does: options of many -D, an -I of a folder, and sources of many rounds.
for n in range(50):
    rounds = "".join(f"x = rotate(x ^ {n * 7919 + i}u, {i % 31 + 1}u) + y; y ^= x;\n" for i in range(64))
    text = f"kernel void m{n:05d}(global uint *a) {{ uint x = a[get_global_id(0)], y = VECT_SIZE;\n{rounds} a[get_global_id(0)] = x + y; }}"
    options = f'-D KERNEL_STATIC -D VECT_SIZE=1 -D DEVICE_TYPE=4 -D DGST_R0={n} -I "/usr/share/hashcat/OpenCL" -cl-std=CL1.2 -w'
    error, log = build(text, options)
    assert error == 0, (n, error, log)
print("compiled 50")
END

# client COMMAND...: by the proxy.
client()
{
    env OCL_ICD_VENDORS="$build/libvgpu-opencl.so" VGPU_OPENCL="proxy:$dir/proxy.sock" VGPU_OPENCL_AGENT=/nowhere \
        timeout 300 "$@" 2>&1
}

# start WHO OPTION...
start()
{
    local who=$1 before=()
    shift
    [ "$who" = nobody ] && before=(setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs)
    rm -rf "$dir/run"
    mkdir -m 755 "$dir/run"
    [ "$who" = nobody ] && chown 65534:65534 "$dir/run"
    ln -sfn run/proxy.sock "$dir/proxy.sock"
    echo "SECRET_0f3a9c_OF_ANOTHER_VM" > "$dir/run/token"
    env ${PRELOAD:+LD_PRELOAD=$PRELOAD} "${before[@]}" "$build/vgpu-proxy" --allow-binaries --drain=1 "$@" --mode=0666 \
        --vendors="$vendors" "$dir/run/proxy.sock" > "$dir/log" 2>&1 &
    proxy=$!
    for _ in $(seq 100); do
        [ -S "$dir/run/proxy.sock" ] && return 0
        kill -0 "$proxy" 2> /dev/null || break
        sleep 0.1
    done
    cat "$dir/log"
    return 1
}

stop()
{
    kill "$proxy" 2> /dev/null
    wait "$proxy" 2> /dev/null
}

# result WHAT OK: a line, and what was denied after a failure.
result()
{
    if [ "$2" = 1 ]; then
        echo "PASS $who: $1"
    else
        echo "FAIL $who: $1"
        failed=1
    fi
}

programs()
{
    client "$build/tests/opencl/six" "$vendor" "$build/libvgpu-opencl.so" 1 > "$dir/six"
    local n
    n=$(grep -o equal "$dir/six" | wc -l)
    result "six programs get equal results ($n)" "$([ "$n" = 6 ] && echo 1)"
    [ "$n" = 6 ] || tail -5 "$dir/six"
    client python3 "$dir/compile.py" hashcat > "$dir/compiled"
    result "50 kernels are compiled" "$(grep -q 'compiled 50' "$dir/compiled" && echo 1)"
    grep -q 'compiled 50' "$dir/compiled" || tail -5 "$dir/compiled"
    for file in "$dir/run/token" /etc/passwd; do
        client python3 "$dir/compile.py" include "$file" > "$dir/included"
        result "a source cannot include $(basename "$file")" \
            "$(! grep -qE 'SECRET_|root:x|error.*root' "$dir/included" && [ -s "$dir/included" ] && echo 1)"
        head -3 "$dir/included"
    done
}

whos=("$(id -un)")
[ "$(id -u)" = 0 ] && whos+=(nobody)
for who in "${whos[@]}"; do
    failed_before=$failed failed=0
    if start "$who"; then
        result "it starts, confined" 1
        programs
        stop
        cat "$dir/log"
    else
        result "it starts, confined" 0
    fi
    if [ $failed = 1 ]; then
        echo "== $who: what is denied"
        gcc -shared -fPIC -o "$dir/denied.so" "$here/denied.c" -ldl && chmod 755 "$dir/denied.so" &&
            PRELOAD=$dir/denied.so start "$who" --strict && client "$build/tests/opencl/six" "$vendor" "$build/libvgpu-opencl.so" 1 | tail -3
        stop
        sort "$dir/log" | uniq -c | sort -rn | head -60
    fi
    failed=$((failed || failed_before))
done
exit $failed
