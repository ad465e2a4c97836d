# Sourced by tests/clusters/*.sh after clusters.bash: hosts as namespaces of this machine, each with a network card, an address, a
# host name, a process table and a /dev/shm of its own, on one bridge, from which nothing leads out.
#
# open_hosts N: h1 to hN at 10.77.0.1 to .N; files are those of this machine, /etc/hosts names the hosts. Skips.
open_hosts() {
    local i
    [ "$(id -u)" = 0 ] || skip "network namespaces need root"
    command -v ip >/dev/null && command -v nsenter >/dev/null || skip "no ip or nsenter (Debian: iproute2, util-linux)"
    host_folder=$(mktemp -d /tmp/drover-hosts.XXXXXX)
    trap 'close_hosts; rm -rf "$host_folder" "$dir"' EXIT
    echo "127.0.0.1 localhost" >"$host_folder"/hosts
    for i in $(seq "$1"); do echo "10.77.0.$i h$i" >>"$host_folder"/hosts; done
    declare -gA host_pid
    start_host h0 || skip "no network namespaces here"
    in_host h0 ip link add bridge type bridge && in_host h0 ip link set bridge up || skip "no bridges here"
    for i in $(seq "$1"); do
        start_host h$i && connect_host $i || skip "no network cards for namespaces here"
    done
}
start_host() { # NAME
    setsid unshare --net --uts --mount --pid --fork --kill-child --mount-proc sh -c '
        hostname "$1" && ip link set lo up && mount --bind "$0" /etc/hosts && mount -t tmpfs tmpfs /dev/shm || exit 1
        : >"$0.$1"; exec sleep 100000' "$host_folder"/hosts "$1" </dev/null &
    host_unshare[$1]=$!
    wait_for test -e "$host_folder/hosts.$1" || return 1
    host_pid[$1]=$(pgrep -P "${host_unshare[$1]}")
}
declare -A host_unshare
in_host() { # NAME WORD...
    local pid=${host_pid[$1]}
    shift
    nsenter --target "$pid" --net --uts --mount --pid --wdns="$PWD" "$@"
}
connect_host() { # I
    ip link add drv$$-$1 netns "${host_pid[h$1]}" type veth peer name port$1 netns "${host_pid[h0]}" &&
        in_host h0 ip link set port$1 master bridge up &&
        in_host h$1 ip link set drv$$-$1 name eth0 &&
        in_host h$1 ip address add 10.77.0.$1/24 dev eth0 && in_host h$1 ip link set eth0 up
}
end_host() { kill -KILL "${host_unshare[$1]}"; } # all of its processes end, as of a machine that loses its power
close_hosts() {
    local name
    for name in "${!host_unshare[@]}"; do kill -KILL "${host_unshare[$name]}" 2>/dev/null; done
    wait "${host_unshare[@]}" 2>/dev/null
}
