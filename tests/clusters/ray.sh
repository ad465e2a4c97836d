#!/bin/bash
# Real Ray, a head and two nodes on this machine in the environment of the manifest's pods, with examples/launch/ray/ray_nodes.py:
# `ray job submit` to the end, with the bits of mpirun; a rank that is killed, up to `ray job status`; TERM by `ray job stop`: saved,
# and resumed by another job with the bits of an unbroken run. usage: ray.sh DROVER
. "$(dirname "$0")"/clusters.bash
[ -x "$launchers"/ray/bin/ray ] || skip "no Ray in $launchers (tools/fetch_launchers.sh ray gets it)"
echo "reads $launchers/ray, outside the tree"
shim=$(realpath "$tests"/../examples/launch/ray/ray_nodes.py)
PATH=$launchers/ray/bin:$(dirname "$drover"):$PATH
make_data
sed -i "s#tokenizer: tok#tokenizer: $dir/tok#; s#train: data/set#train: $dir/data/set#" run.yaml
sed -i 's/micro_batch_size: 2/micro_batch_size: 1/; s/steps: 40/steps: 100000/; s/every: 3/every: 50/' run.yaml
export RAY_USAGE_STATS_ENABLED=0 RAY_COLOR_PREFIX=0
# variables CONTAINER: Ray's own that the manifest gives to it
variables() {
    sed -nE "/^ *- name: $1\$/,/resources:/{/- name: RAY_/{N; s/^ *- name: ([A-Za-z_0-9]+)\\n *value: \"(.*)\"\$/\1=\2/p}}" \
        "$tests"/../examples/launch/ray/rayjob.yaml
}
check "the manifest's variables" [ "$(variables ray-head | wc -l) $(variables ray-worker | wc -l)" = "1 3" ]
(umask 077; head -c 32 /dev/urandom >secret)
export DROVER_JOB_SECRET_FILE=$dir/secret # Ray calls its nodes by the address of this machine
folder=$(mktemp -d /tmp/drover-ray.XXXXXX) # sockets of Ray have long names
nodes=()
trap 'kill "${nodes[@]}" 2>/dev/null; wait; rm -rf "$folder" "$dir"' EXIT
# node NAME CONTAINER WORD...: `ray start` in the environment of that container, which gives a raylet 30 s and then up, until it has
# started
node() {
    local name=$1 environment i pid
    mapfile -t environment < <(variables "$2")
    shift 2
    for i in 1 2 3 4 5; do
        env "${environment[@]}" ray start --block --node-ip-address=127.0.0.1 --min-worker-port=0 --max-worker-port=0 \
            --dashboard-agent-listen-port=0 "$@" >"$name".out 2>&1 &
        pid=$!
        wait_for eval "grep -q 'will now block forever' $name.out || is_gone $pid"
        is_gone $pid || break
    done
    nodes+=($pid)
}
# Ray binds the ports of its store and of the page of its jobs, and says which.
node head ray-head --head --num-cpus=0 --port=0 --dashboard-host="$address" --dashboard-port=0 --temp-dir="$folder"
for name in first second; do node $name ray-worker --num-cpus=2 --address="$(cat "$folder"/ray_current_cluster)"; done
export RAY_ADDRESS=http://$address:$(sed -n "s|.*_ADDRESS='http://[^:]*:\([0-9]*\)' ray job submit.*|\1|p" head.out)
wait_for timeout 60 ray job submit -- true # until all of Ray is there
# job RUN SETTING...: the words of `ray job submit` for two nodes of two ranks, in `submit`; restarts=true: with --max-restarts
job() {
    local run=$1 words
    words=$(python3 -c 'import json, sys; print(json.dumps(sys.argv[1:]))' "$drover" launch node "$dir"/run.yaml --ranks-per-node 2 \
        --expect-ranks 4 ${restarts:+--max-restarts 3} --set run_dir="$dir/$run" $(shift; printf -- '--set %s ' "$@"))
    echo "{\"nodes\": 2, \"bundle\": {\"CPU\": 1}, \"command\": $words, \"tries\": 0, \"wait_s\": 120, \"grace_s\": 120, \"restarts\": ${restarts:-false}}" >"$run".json
    submit=(timeout -s KILL $LIMIT ray job submit --submission-id "$run" -- python3 "$shim" "$dir/$run".json)
}
status_of() { ray job status "$1" 2>&1; }

job done training.stop_at_step=0 training.steps=6
expect 0 "succeeded" "${submit[@]}"
is status done 0
journal done '"event": *"start".*"ranks": *4'
expect 0 "step 6" ranks 4 train run.yaml --set run_dir=mpi --set training.steps=6
check "the bits of mpirun" test "$(sums done 000006)" = "$(sums mpi 000006)"

# --- a cluster that stays: the files and variables of `launch ray --cluster`, as a ConfigMap lies in the pod that submits them
printf 'cpus: 2\nmemory_gib: 4\n' >machine.yaml
expect 0 next "$drover" launch ray run.yaml --nodes 2 --ranks-per-node 2 --instance-file machine.yaml --image r/d:1 --pvc c --mount "$dir" \
    --cluster stays --env DROVER_THREADS=1 --set run_dir=sent --set training.steps=6 --out stays
mkdir -p map/..2026
ln -s ..2026 map/..data
"$launchers"/ray/bin/python3 - map >sent.json <<'PY'
import json, os, sys, yaml
files, job = yaml.safe_load_all(open("stays/rayjob.yaml"))
for name, text in files["data"].items():
    open(f"{sys.argv[1]}/..data/{name}", "w").write(text)
    os.symlink(f"..data/{name}", f"{sys.argv[1]}/{name}")
given = yaml.safe_load(job["spec"]["runtimeEnvYAML"])
assert given["working_dir"] == "/etc/drover", given
print(json.dumps({**given, "working_dir": os.path.abspath(sys.argv[1])}))
open("entrypoint", "w").write(job["spec"]["entrypoint"])
PY
# shellcheck disable=SC2046
expect 0 "succeeded" timeout -s KILL $LIMIT ray job submit --submission-id sent --runtime-env-json "$(cat sent.json)" -- $(cat entrypoint)
is status sent 0
check "the bits of mpirun, on a cluster that stays" test "$(sums sent 000006)" = "$(sums mpi 000006)"

job killed training.stop_at_step=0
"${submit[@]}" >out 2>&1 &
pid=$!
begun killed 5
kill -KILL "$(pgrep -f "^drover train .*run_dir=$dir/killed " | head -n 1)"
wait_end $pid
check "a rank is killed: ray job submit exits $?" [ $? != 0 ]
is status killed 75
expect 0 "Job 'killed' failed" status_of killed
says "exit code 75"

job stopped training.stop_at_step=0
"${submit[@]}" >out 2>&1 &
pid=$!
begun stopped 5
timeout 200 ray job stop stopped >stop.out 2>&1
wait_end $pid
is end stopped stopped
is status stopped 3
to=$((10#$(newest_step stopped) + 4))
job again run_dir="$dir"/stopped training.stop_at_step=$to
"${submit[@]}" >out 2>&1
is status stopped 3
expect 3 "step $to" ranks 4 train run.yaml --set run_dir=whole --set training.stop_at_step=$to
to=$(printf %06d $to)
check "the bits of a run that nothing stopped" test "$(sums stopped $to)" = "$(sums whole $to)"

# --- with --max-restarts node 0 has the word: a rank is killed, then the program of the other node, which is started again
restarts=true
job held training.stop_at_step=0
"${submit[@]}" >out 2>&1 &
pid=$!
begins() { [ "$(grep -c '"event": *"running"' held/events.jsonl 2>/dev/null)" = "$1" ]; }
wait_for begins 1
kill -KILL "$(pgrep -f "^drover train .*run_dir=$dir/held " | head -n 1)"
wait_for begins 2
for launcher in $(pgrep -f "launch node $dir/run.yaml .*run_dir=$dir/held"); do
    ! tr '\0' '\n' <"/proc/$launcher/environ" | grep -qx DROVER_NODE_RANK=1 || kill -KILL "$launcher"
done
wait_for begins 3
timeout 200 ray job stop held >stop.out 2>&1
wait_end $pid
is status held 3
check "two restarts" test "$(grep -c '"event": *"restart"' held/events.jsonl)" = 2
finish
