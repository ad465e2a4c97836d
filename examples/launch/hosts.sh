#!/bin/bash
# Trains on hosts that ssh reaches, by Open MPI's mpirun, until the run is done or fails for good:
#   hosts.sh HOSTFILE CONFIG [--set KEY=VALUE]...
# HOSTFILE is mpirun's: a line "HOST slots=RANKS" for each host. The program, CONFIG and the run directory are at the same
# paths on all of them. Run it under nohup, tmux or a systemd unit; TERM, INT, HUP and USR1 save and stop the run.
# TRIES (3) is the number of further tries after a failure that another try may fix; MPI_OPTIONS has options for mpirun.
set -u
if [ $# -lt 2 ] || [ ! -f "$1" ]; then
    echo "usage: hosts.sh HOSTFILE CONFIG [--set KEY=VALUE]..." >&2
    exit 2
fi
hostfile=$1
shift
tries=${TRIES:-3}
read -ra mpi_options <<<"${MPI_OPTIONS:-}"

say() { echo "hosts.sh: $*" >&2; }

# "HOST RANKS" for each host.
hosts=$(awk '!/^ *(#|$)/ { n = 1; for (i = 2; i <= NF; i++) if ($i ~ /^slots=/) n = substr($i, 7); print $1, n }' "$hostfile")
ranks=$(awk '{ n += $2 } END { print n + 0 }' <<<"$hosts")
nodes=$(awk 'NF' <<<"$hosts" | wc -l)
if [ "$ranks" -lt 1 ]; then
    say "$hostfile names no host, expected lines \"HOST slots=RANKS\""
    exit 2
fi
run_dir=$(drover config "$@" | sed -nE 's/^run_dir: "([^"]*)".*/\1/p') || exit 2
[ -n "$run_dir" ] || exit 2

# Before the ranks: every host answers, and has the same program.
program=$(command -v drover)
version=$("$program" --version)
while read -r host _; do
    there=$(ssh -n -o BatchMode=yes -o ConnectTimeout=20 "$host" "$program" --version) || {
        say "$host does not answer, or has no $program"
        exit 75
    }
    if [ "$there" != "$version" ]; then
        say "$host has $there, expected $version"
        exit 1
    fi
done <<<"$hosts"

# mpirun sends USR1 to all ranks, which save and end with 3. Between two tries there is nothing to save.
ranks_pid=
# shellcheck disable=SC2317,SC2329 # the trap calls it
on_signal() {
    stopped=yes
    [ -z "$ranks_pid" ] || kill -USR1 "$ranks_pid"
}
stopped=
trap on_signal TERM INT HUP USR1

# The status of the run that has just ended: its own word, else mpirun's.
status_of_run() {
    local said=
    if [ "$run_dir/status.json" -nt "$began" ]; then
        said=$(tr -d '\n' <"$run_dir/status.json" | sed -nE 's/.*"status": *([0-9]+).*/\1/p')
    fi
    echo "${said:-$1}"
}

began=$(mktemp) || exit 75
trap 'rm -f "$began"' EXIT
status=75
for ((try = 0; ; try++)); do
    [ -z "$stopped" ] || exit "$status"
    touch "$began"
    say "$nodes hosts, $ranks ranks, start $((try + 1))"
    mpirun --hostfile "$hostfile" -n "$ranks" "${mpi_options[@]}" \
        "$program" train "$@" --expect-ranks "$ranks" --expect-nodes "$nodes" &
    ranks_pid=$!
    [ -z "$stopped" ] || kill -USR1 "$ranks_pid"
    while :; do # wait ends when a trap has run
        wait "$ranks_pid"
        status=$?
        kill -0 "$ranks_pid" 2>/dev/null || break
    done
    ranks_pid=
    status=$(status_of_run "$status")
    [ "$status" = 75 ] && [ -z "$stopped" ] && [ "$try" -lt "$tries" ] || exit "$status"
    say "ended with 75: once more"
    sleep "${WAIT:-10}" &
    pause=$!
    wait $pause # a signal ends it
    kill $pause 2>/dev/null
done
