# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the script that sources it
# How tools/check runs one step after the other: logs, counts, costs, failures, Ctrl-C.
# Sourced with the working directory at the top of the tree.

passed=0 failed=0 skipped=0 number=0
logs='' log='' runner=''
all_logs=()
# Counts of the current step.
step_passed=0 step_failed=0 step_skipped=0
# A compiler cache makes the cost of a build depend on what was built before.
cached_builds=''
[ -z "$ccache" ] || [ -n "${CCACHE_DISABLE-}" ] || cached_builds=yes

# begin_run NAME: its logs go to build/check/NAME, where those of its last run are removed.
begin_run()
{
    logs=$root/build/check/$1
    all_logs+=("$logs")
    number=0
    rm -rf "$logs"
    mkdir -p "$logs"
}

# step NAME COMMAND...: runs it with its output in a log, prints one line, adds up.
step()
{
    local name=$1 began status word cpu
    do_fixed_job
    began=$EPOCHREALTIME
    cpu=$cpu_ms
    shift
    number=$((number + 1))
    log=$logs/$(printf '%02d' "$number")-${name//[^A-Za-z0-9]/-}.log
    step_passed=0 step_failed=0 step_skipped=0
    run_apart "$@" > "$log" 2>&1
    status=$?
    read -r step_passed step_failed step_skipped < "$log.counts"
    # A step that broke without a failed test counts as one failure.
    if [ "$status" != 0 ] && [ "$step_failed" = 0 ]; then
        step_failed=1
        printf '%s\n    the step ended with status %s: %s\n' "$name" "$status" "$log" > "$log.failed"
    fi
    word=ok
    [ "$step_failed" = 0 ] || word=FAILED
    read_cpu
    cpu=$((cpu_ms - cpu))
    printf '%-7s %6.1f s, %5.1f s of CPU  %s' "$word" "$(seconds_since "$began")" \
        "${cpu}e-3" "$name"
    if [ $((step_passed + step_failed + step_skipped)) != 0 ]; then
        printf ': %d passed, %d failed, %d skipped' "$step_passed" "$step_failed" "$step_skipped"
    fi
    printf '\n'
    print_costs "$log"
    record_costs "$name" "$cpu" "$log"
    print_skips "$log"
    [ "$step_failed" = 0 ] || print_failures "$log"
    passed=$((passed + step_passed))
    failed=$((failed + step_failed))
    skipped=$((skipped + step_skipped))
    [ "$step_failed" = 0 ]
}

# run_apart COMMAND...: as a process group of its own. Ctrl-C then reaches this shell alone, which can
# end everything in order. Leaves the counts in a file.
run_apart()
{
    local status
    echo 0 0 0 > "$log.counts"
    set -m
    (
        exec 8>&- 9>&-
        "$@"
        status=$?
        echo "$step_passed $step_failed $step_skipped" > "$log.counts"
        exit "$status"
    ) &
    runner=$!
    set +m
    wait "$runner"
    status=$?
    runner=''
    return "$status"
}

# The processes that descend from this shell. Those whose parent has ended are its own children.
list_descendants()
{
    grep -Hs -e '^State:' -e '^PPid:' /proc/[0-9]*/status | awk -v root=$$ '
        { split($1, path, "/") }
        $1 ~ /State:$/ { state = $2 }
        $1 ~ /PPid:$/ && state != "Z" { parent[path[3]] = $2 }
        END { for (pid in parent)
                for (p = pid; p in parent; p = parent[p])
                    if (parent[p] == root) { print pid; break } }'
}

# signal_descendants SIGNAL: false if there are none.
signal_descendants()
{
    local pid any=1
    for pid in $(list_descendants); do
        kill "-$1" "$pid" 2> /dev/null && any=0
    done
    return $any
}

# Ends everything that was started. Tests have ten seconds to clean up.
interrupt_run()
{
    local i
    trap '' INT TERM HUP
    # Not into the log of the step.
    exec >&8 2>&1
    signal_descendants INT
    for ((i = 0; i < 100; i++)); do
        kill -0 "${runner:-none}" 2> /dev/null || break
        sleep 0.1
    done
    for ((i = 0; i < 50; i++)); do
        signal_descendants "$([ $i -lt 10 ] && echo TERM || echo KILL)" || break
        sleep 0.1
    done
    echo interrupted
    exit 130
}

# Sets cpu_ms to the CPU time of everything that was started here and has ended, detached or not.
read_cpu()
{
    # In a file: a subshell has times of its own.
    times > "$logs/times"
    cpu_ms=$(awk 'NR == 2 { split($1, u, /[ms]/); split($2, s, /[ms]/)
        printf "%.0f", (u[1] + s[1]) * 60000 + (u[2] + s[2]) * 1000 }' "$logs/times")
}

# The unit of tests/costs: compilers and short processes, on all CPUs at once, as in the steps of a run.
do_fixed_job()
{
    local i before
    [ -e "$logs/job.c" ] || awk 'BEGIN { for (f = 0; f < 25; f++) {
        printf "int f%d(int *a, int n)\n{\n    int s = %d;\n", f, f
        for (i = 0; i < 12; i++)
            printf "    for (int i = %d; i < n; i++)\n        s += a[i] %% %d ? s ^ a[i] : s << %d;\n",
                i, i + 2, i + 1
        print "    return s;\n}" } }' > "$logs/job.c"
    read_cpu
    before=$cpu_ms
    for ((i = 0; i < jobs; i++)); do
        {
            CCACHE_DISABLE=1 gcc -O1 -c -o /dev/null "$logs/job.c"
            for ((n = 0; n < 60; n++)); do
                /bin/true
            done
        } &
    done
    wait
    read_cpu
    printf 'job\t-\t%de-3\n' $((cpu_ms - before)) >> "$logs/costs"
}

# record_costs STEP CPU_MS LOG: of the step and of its files.
record_costs()
{
    case $1 in
    build\ *) [ -z "$cached_builds" ] || return ;;
    esac
    printf '%s\t-\t%de-3\n' "$1" "$2" >> "$logs/costs"
    sed -nE "s,^# cpu ([0-9.]+ ?[0-9.]*) s: (\.*/)?(.*),\1\t\3,p" "$3" |
        awk -F '\t' -v part="$1" '{ split($1, cpu, " "); printf "%s\t%s\t%f\n", part, $2, cpu[1] + cpu[2] }' \
            >> "$logs/costs"
}

seconds_since()
{
    awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'
}

# not_run NAME WHY
not_run()
{
    printf '%-7s %8s  %s (%s)\n' 'not run' '' "$1" "$2"
}

# What took longest of a step: test programs say it in a comment of TAP, pytest of each file.
print_costs()
{
    sed -n 's/^# took \([0-9.]*\) s: \(.*\)/\1 \2/p' "$1" | sort -rn > "$1.costs"
    awk '$1 >= 5 && n < 8 { printf "%s%s %.0f s", n++ ? ", " : "    longest: ", $2, $1 }
        END { if (n) print "" }' "$1.costs"
}

print_skips()
{
    sed -n -e 's/^ok [0-9]* *-* *\(.*[^ ]\) *# SKIP *\(.*\)/    skipped: \1: \2/p' \
        -e 's/^ok [0-9]* *-* *# SKIP *\(.*\)/    skipped: \1/p' \
        -e 's/^SKIPPED \(\[[0-9]*\] \)\{0,1\}/    skipped: /p' \
        -e 's/^1\.\.0 # SKIP /    skipped: /p' "$1"
}

print_failures()
{
    local key='^(not ok|Bail out!|FAILED |ERROR )|: (fatal )?error: |undefined reference|\*\*\*'
    local lines=40
    if grep -E "$key" "$1" | head -20 | sed 's/^/    /' | grep .; then
        lines=20
    fi
    show_log "$1" "$lines"
}

# The end of a run: each failed test with the assertion and the command that repeats it, then the counts.
summary()
{
    local directory file
    for directory in "${all_logs[@]}"; do
        for file in "$directory"/*.failed; do
            if [ -s "$file" ]; then
                echo
                cat "$file"
            fi
        done
    done
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ] && exit 0
    exit 1
}

# ---- builds ----

# build_part TARGETS DIR CONFIGURE_ARGUMENT...
build_part()
{
    local targets=$1
    shift
    # shellcheck disable=SC2086 # targets is a list of words
    ensure_build "$@" && make -k -j "$jobs" -C "$1" $targets
}

# sanitizer_works LIST: does the least program run with it on this machine?
sanitizer_works()
{
    printf 'int main(void) { return 0; }\n' > "$logs/probe.c"
    clang "-fsanitize=$1" -o "$logs/probe" "$logs/probe.c" || return 1
    wrap=''
    "$logs/probe" && return 0
    case $1 in
    thread)
        # clang 14's TSan cannot live with as much address space randomisation as newer kernels do.
        wrap='setarch -R'
        ;;
    address*)
        # LeakSanitizer traces its own process, which some containers forbid.
        ASAN_OPTIONS=${ASAN_OPTIONS/detect_leaks=1/detect_leaks=0}
        echo "SKIPPED leak check: LeakSanitizer may not trace its process here"
        ;;
    esac
    $wrap "$logs/probe"
}

# need_sanitizer NAME LIST: false, with the reason printed, where it cannot be used.
need_sanitizer()
{
    if ! sanitizer_works "$2" > "$logs/probe.log" 2>&1; then
        skipped=$((skipped + 1))
        not_run "tests under $1" "clang's -fsanitize=$2 does not work on this machine"
        show_log "$logs/probe.log" 5
        return 1
    fi
    if grep -q ^SKIPPED "$logs/probe.log"; then
        skipped=$((skipped + 1))
        print_skips "$logs/probe.log"
    fi
}

# ---- kinds of tests ----

# Adds up what automake's driver wrote about each test program. The logs of failed ones come last.
count_tap()
{
    local trs line program
    local -a failures=()
    while read -r trs; do
        if grep -qE '^:test-result: (FAIL|ERROR|XPASS)' "$trs"; then
            failures+=("$trs")
        else
            cat "${trs%.trs}.log"
        fi
        while read -r line; do
            case $line in
            ':test-result: PASS'* | ':test-result: XFAIL'*) step_passed=$((step_passed + 1)) ;;
            ':test-result: SKIP'*) step_skipped=$((step_skipped + 1)) ;;
            ':test-result: '*) step_failed=$((step_failed + 1)) ;;
            esac
        done < "$trs"
    done < <(find "$1/tests" -name '*.trs' | sort)
    for trs in "${failures[@]}"; do
        program=${trs%.trs}
        cat "$program.log"
        echo "FAILED $program"
        explain_tap "$program.log" "${program#"$1"/}" "$1" >> "$log.failed"
    done
}

# explain_tap LOG PROGRAM DIR: each failed test, the message that follows it, and how to repeat the program.
explain_tap()
{
    awk -v program="$2" '
        /^not ok/ { sub(/^not ok [0-9]* *-* */, ""); print program ": " $0; message = 1; any = 1; next }
        /^Bail out!/ { print program ": " $0; any = 1; next }
        message && /^# / { sub(/^# */, "    "); print; if (message++ == 2) message = 0; next }
        { message = 0 }
        END { if (!any) print program ": ended before all its tests were done" }' "$1"
    echo "    repeat: $(repeat_settings)make -C $3 check TESTS=$2"
}

# What the environment of a repeated test has to say.
repeat_settings()
{
    printf 'VG_TEST_SEED=%s ' "$VG_TEST_SEED"
    [ -z "${VG_TEST_FULL-}" ] || printf 'VG_TEST_FULL=1 '
}

# tap DIR MAKE_VARIABLE_WITH_TESTS: more at once than there are CPUs, for they wait, too. Of check
# programs, make sees to those among the tests only.
tap()
{
    local dir=$1 tests=$2 status limit=${tap_limit:-1800}
    find "$dir/tests" -name '*.trs' -delete
    # shellcheck disable=SC2086 # wrap is a list of words
    timeout --kill-after=10 $limit ${wrap-} \
        make -k -j "$((jobs * 2))" -C "$dir" check-TESTS "TESTS=$tests" check_PROGRAMS= \
        check_LIBRARIES= check_SCRIPTS= > "$log.make" 2>&1
    status=$?
    count_tap "$dir"
    if [ "$status" != 0 ] && [ "$step_failed" = 0 ]; then
        cat "$log.make"
        [ "$status" != 124 ] || echo "FAILED still running after $limit s"
        return 1
    fi
    if [ "$step_passed" = 0 ] && [ "$step_failed" = 0 ] && [ "$step_skipped" = 0 ]; then
        cat "$log.make"
        echo "FAILED no test ran"
        return 1
    fi
    return 0
}

# pytest PROGRAM ARGUMENT...
pytest()
{
    # More of them than there are CPUs: they wait more than they compute.
    local program=$1 status line what n at_once=${pytest_jobs:-$((jobs * 2))} limit=${pytest_limit:-3000}
    local -a spread=()
    shift
    if [ "$at_once" -gt 1 ] && /usr/bin/python3 -c 'import xdist' 2> /dev/null; then
        spread=(-n "$at_once" --dist loadgroup)
    fi
    # Once, and not by each of them.
    [ -d "$PYTHONPYCACHEPREFIX" ] ||
        /usr/bin/python3 -m pytest -p no:cacheprovider -q --collect-only tests > /dev/null 2>&1
    # shellcheck disable=SC2086 # wrap is a list of words
    VGPUCTL=$root/$program VG_BUILDDIR=$root/${program%/*} VG_SRCDIR=$root \
        VG_TEST_FAILURES=$log.failed VG_TEST_REPEAT=$(repeat_settings) \
        timeout --kill-after=10 $limit ${wrap-} /usr/bin/python3 -m pytest \
        -p no:cacheprovider -q -rsfE --durations=40 "${spread[@]}" "$@" 2>&1 | tee "$log.pytest"
    status=${PIPESTATUS[0]}
    line=$(grep -E '[0-9]+ [a-z]+.* in [0-9.]+s' "$log.pytest" | tail -n 1)
    while read -r n what; do
        case $what in
        passed | xfailed) step_passed=$((step_passed + n)) ;;
        failed | error | errors | xpassed) step_failed=$((step_failed + n)) ;;
        skipped) step_skipped=$((step_skipped + n)) ;;
        esac
    done < <(grep -oE '[0-9]+ (passed|failed|errors?|skipped|xfailed|xpassed)' <<< "$line")
    rm -f "$log.pytest"
    if [ "$status" != 0 ]; then
        [ "$status" != 124 ] || echo "FAILED still running after $limit s"
        return 1
    fi
    return 0
}

# libFuzzer on one target. What it finds and learns stays in build-fuzz.
fuzz()
{
    local name=${1#fuzz-}
    local work=$root/build-fuzz/found/$name
    mkdir -p "$work"
    timeout --kill-after=10 $((fuzz_seconds + 120)) "$root/build-fuzz/tests/fuzz/$1" \
        "-max_total_time=$fuzz_seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
        "-artifact_prefix=$root/build-fuzz/$name-" "$work" "$root/tests/fuzz/corpus/$name"
}

# All targets, as many at once as there are CPUs.
fuzz_all()
{
    local source target
    local -A pids=()
    for source in tests/fuzz/fuzz-*.c; do
        while [ "$(jobs -pr | wc -l)" -ge "$jobs" ]; do
            wait -n
        done
        target=$(basename "$source" .c)
        fuzz "$target" > "$log.$target" 2>&1 &
        pids[$target]=$!
    done
    for target in "${!pids[@]}"; do
        if wait "${pids[$target]}"; then
            step_passed=$((step_passed + 1))
            grep ^stat: "$log.$target" | sed "s/^/$target: /"
        else
            step_failed=$((step_failed + 1))
            tail -n 40 "$log.$target"
            echo "FAILED $target: the input is in build-fuzz/${target#fuzz-}-*"
        fi
    done
}
