# SPDX-License-Identifier: Apache-2.0
# Completion for vgpuctl(1), for fish. What there is, vgpuctl itself says.

function __vgpuctl_commands
    vgpuctl --help | string replace -rf '^  ([a-z]+) +(.*)' '$1\t$2'
end

# The words after vgpuctl that are no options.
function __vgpuctl_words
    string match -v -- '-*' (commandline -opc)[2..]
end

function __vgpuctl_options
    set -l words (__vgpuctl_words)
    vgpuctl $words[1] --help | string replace -rf '^ +(?:-., )?(--[a-z-]+).*' '$1'
end

function __vgpuctl_verbs
    set -l words (__vgpuctl_words)
    vgpuctl $words[1] --help |
        string replace -rf '^(?:Usage:|  or:) +vgpuctl [a-z]+ \[OPTION\.\.\.\] ([a-z]+).*' '$1'
    switch $words[1]
        case migrate preemptions
            vgpuctl vm list -o name 2> /dev/null
        case explain
            vgpuctl explain -o name
    end
end

function __vgpuctl_names
    set -l words (__vgpuctl_words)
    switch $words[1]
        case vm gpu plan migration token context
            vgpuctl $words[1] list -o name 2> /dev/null
        case vulkan proxy
            vgpuctl vm list -o name 2> /dev/null
    end
end

function __vgpuctl_has
    test (count (__vgpuctl_words)) -eq $argv[1]
end

function __vgpuctl_reads_files
    set -l words (__vgpuctl_words)
    contains -- "$words[1]" analyze snapshot simulate record
end

complete -c vgpuctl -n 'not __vgpuctl_reads_files' -f
complete -c vgpuctl -n '__vgpuctl_has 0' -a '(__vgpuctl_commands)'
complete -c vgpuctl -n '__vgpuctl_has 1' -a '(__vgpuctl_verbs)'
complete -c vgpuctl -n '__vgpuctl_has 2' -a '(__vgpuctl_names)'
complete -c vgpuctl -n 'not __vgpuctl_has 0; and string match -q -- "-*" (commandline -ct)' \
    -a '(__vgpuctl_options)'
