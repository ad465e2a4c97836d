#!/bin/bash
# drover doctor --node: one node alone, four and five beside each other under mpirun; one that has less memory is named,
# with the figure. What is fast on a busy machine says nothing: whether others stand out is not looked at. usage: doctor_node.sh DROVER
. "$(dirname "$0")"/ranks.bash
expect 0 "1 node, drover" "$drover" doctor --node run --seconds 0.1
says "GEMM        " "memory      " "write       " "read        " "free        " "fsync       at most"
check "nothing is left" test "$(ls -A run)" = ""
expect 2 "--seconds needs --node" "$drover" doctor --seconds 1
expect 2 "--hosts needs --node" "$drover" doctor --hosts
expect 2 "--seconds" "$drover" doctor --node --seconds 0
touch file
expect 1 '"file/x"' "$drover" doctor --node file/x --seconds 0.1

# nodes N WORDS...: as many ranks; the last may take 6 GB of memory, which is told from the others' on a busy machine, too
sanitized && { echo "skipped: AddressSanitizer's program does not start where memory is bounded"; finish; exit; }
nodes() {
    local n=$1
    shift
    ranks_and_last "$n" "$drover" doctor --node run --seconds 0.5 "$@" : \
        bash -c 'ulimit -v 6000000; exec "$0" "$@"' "$drover" doctor --node run --seconds 0.5 "$@"
}
expect 1 "4 nodes; medians" nodes 4
says "link        " "latency     " "clocks      at most" "locks       held against all nodes" "node 3 ($(hostname)): " "free memory 0."
check "one line says why it ends" test "$(grep -c "^drover: .* of 4 nodes stand" out)" = 1
check "nothing is left" test "$(ls -A run)" = ""
nodes 5 --json >out 2>err
check "it ends with 1" test $? = 1
python3 - out >err 2>&1 <<'PY' && ok || bad "results of five" err
import json, sys
found = json.load(open(sys.argv[1]))
nodes = found["nodes"]
assert [node["node"] for node in nodes] == [0, 1, 2, 3, 4], nodes
for node in nodes:
    for key in ("gemm_flops_per_s", "memory_bytes_per_s", "write_bytes_per_s", "read_bytes_per_s", "free_bytes", "link_bytes_per_s",
                "latency_s", "fsync_s"):
        assert node[key] > 0, (key, node)
    assert abs(node["clock_s"]) < 1 and node["sees_lock"] and node["sees_rename"] and node["sees_directory"], node
assert "free memory" in nodes[4]["named"] and nodes[4]["host"] in found["named_hosts"]
PY
nodes 2 --hosts >out 2>err # of two the median is between both
check "the host stands alone in a line" grep -qx "$(hostname)" out
finish
