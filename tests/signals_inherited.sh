#!/bin/bash
# Who starts a program may have every signal ignored (Ray's raylet ignores SIGCHLD in all that it starts) or blocked: each verb ends
# as it does without that, waits for its children, and heeds a stop. usage: signals_inherited.sh DROVER
tests=$(realpath "$(dirname "$0")")
. "$tests"/ranks.bash
unset HWLOC_SYNTHETIC
export HWLOC_COMPONENTS=-pci,-linuxio OMPI_MCA_btl_tcp_if_include=lo
make_data
make_chat
sed -i 's/steps: 40/steps: 2/' run.yaml
printf '{"query": "a", "choices": ["b", "c"], "gold": 0}\n' >choices.jsonl
mkdir programs && printf '#!/bin/sh\necho "Submitted batch job 7"\n' >programs/sbatch && chmod +x programs/sbatch
export PATH=$dir/programs:$PATH

ignored=(env --ignore-signal) blocked=(env --block-signal)
LIMIT=${LIMIT:-120} # seconds for a verb, which takes two at most; what hangs fails
declare -A begun
# alike WORD...: the command ends with the same status, whichever signals it inherits
alike() {
    local want got how
    begun[$1]=yes
    timeout -s KILL $LIMIT "$drover" "$@" >out 2>&1 </dev/null
    want=$?
    for how in ignored blocked; do
        local -n before=$how
        timeout -s KILL $LIMIT "${before[@]}" "$drover" "$@" >out 2>&1 </dev/null
        got=$?
        check "$*, all signals $how: exit $got, not $want" [ $got = $want ]
    done
    [ $want != 1 ] || bad "$*: exit 1" out
}
alike train run.yaml --set run_dir=run
model=run/checkpoints/step-000002
alike eval $model --data data/set --max-batches 1
alike generate --model $model --prompt "a" --max-tokens 2
alike plot run --plain
alike top run --once
alike page run --listen nowhere # serving never ends
alike report run
alike audit run --steps 1-2
alike config run.yaml
alike plan run.yaml
alike graph run.yaml
alike compile run.yaml
alike tokenizer encode tok --text a
alike data info data/set
alike data build --input text.txt --tokenizer tok --out data/again
alike model get ..
alike ckpt verify $model
alike chat --model $model --prompt a --template chat.jinja --max-tokens 2
alike bench gemm --seconds 0.01
alike devices
alike examples
alike doctor
alike launch node run.yaml --ranks-per-node 2 --set run_dir=ranks --fresh
alike launch slurm run.yaml --name job --nodes 1 --out job
alike launch status job
for verb in $("$drover" help | sed -n '/^verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    check "\"$verb\" is not in this test" [ "${begun[$verb]-}" = yes ]
done

# What Ray starts on each node: the status of its child, on a thread that is not the main one, as Ray runs it; a stop that comes first.
cat >ray.py <<'PYTHON'
import signal, sys, threading, types
def remote(**_): return lambda cls: cls
ray = sys.modules[__name__]
for name in ("ray", "ray.util", "ray.util.placement_group", "ray.util.scheduling_strategies"): sys.modules[name] = ray
placement_group = remove_placement_group = PlacementGroupSchedulingStrategy = None
PYTHON
cat >ray_child.py <<'PYTHON'
import signal, sys, threading
import ray
sys.path.insert(0, sys.argv[1])
from ray_nodes import Node
ended = []
def run(node, script): ended.append(node.run({"command": ["sh", "-c", script]}, {}))
def run_all(cases):
    for node, script in cases:
        thread = threading.Thread(target=run, args=(node, script))
        thread.start()
        thread.join()
run_all(((Node(), "exit 75"), (Node(), "kill -KILL $$")))
early = Node()
early.stop()
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, [])
run_all([(early, "exec sleep 99")])
print(ended)
PYTHON
for how in ignored blocked; do
    declare -n before=$how
    expect 0 "[75, 137, 143]" "${before[@]}" python3 ray_child.py "$tests"/../src/launch/jobs
done

# stops CODE SIGNAL FILE PATTERN WORD...: started with all signals ignored, then blocked, it heeds SIGNAL once FILE matches PATTERN
stops() {
    local code=$1 signal=$2 file=$3 pattern=$4 how pid got
    shift 4
    for how in ignored blocked; do
        local -n before=$how
        rm -rf long "$file"
        "${before[@]}" "$drover" "$@" >out 2>&1 < <(exec sleep 100) &
        pid=$!
        wait_for grep -qs "$pattern" "$file" || bad "$*: it does not begin" out
        kill -"$signal" $pid
        wait_end $pid
        got=$?
        check "$1, all signals $how: SIG$signal ends it with $got, not $code" [ $got = "$code" ]
    done
}
long=(--set run_dir=long --set training.steps=1000000 --set checkpoint.every=0)
for signal in TERM USR1; do stops 3 $signal long/metrics.jsonl '"step":2,' train run.yaml "${long[@]}"; done
stops 3 TERM long/metrics.jsonl '"step":2,' launch node run.yaml --ranks-per-node 2 "${long[@]}"
finish
