#!/bin/bash
# Jobs of drover launch slurm on a Slurm of two virtual nodes: sbatch takes every script, and one is submitted, looked at, stopped
# with a save, handed over again, and cleaned. Needs root, Debian's Slurm, and shared/tools/slurm-local beside the tree.
# usage: launch_sbatch.sh DROVER
tree=$(realpath "$(dirname "$0")/..")
. "$(dirname "$0")"/ranks.bash
bad() { # the first failure ends the test: what comes after it would wait for what cannot come
    echo "FAILED, line ${BASH_LINENO[-2]}: $1"
    [ -z "$2" ] || sed 's/^/    /' "$2"
    tail -n 5 run-*.log 2>/dev/null
    exit 1
}
unset HWLOC_SYNTHETIC && export HWLOC_COMPONENTS=-pci,-linuxio # as ranks.bash, but for the cores
for folder in "$tree/../shared" "$tree/../../shared"; do [ ! -x "$folder/tools/slurm-local" ] || slurm_local=$(realpath "$folder/tools/slurm-local"); done
if [ -z "$slurm_local" ] || ! command -v sbatch >/dev/null || [ "$(id -u)" != 0 ]; then echo "skipped: no Slurm to try it on"; exit 77; fi
export TMPDIR=$dir SLURM_LOCAL_NODES=2
setup=$("$slurm_local" start 2>out) || { echo "skipped: slurm-local does not start: $(tail -n 1 out)"; exit 77; }
eval "$setup"
trap '"$slurm_local" stop >/dev/null 2>&1; rm -rf "$dir"' EXIT
mkdir bin && ln -s "$drover" bin/drover && export PATH=$dir/bin:$PATH
make_data
sed -i 's/steps: 40/steps: 100000/; s/micro_batch_size: 2/micro_batch_size: 1/; s/every: 3/every: 100000/' run.yaml
printf 'cpus: 4\nmemory_gib: 1\n' >machine.yaml
job=(run.yaml --instance-file machine.yaml)

# --- sbatch takes them all
i=0
for options in "--nodes 1" "--nodes 2 --time 1h --tries 1" "--nodes 2 --tasks node --preflight exclude" "--nodes 2 --ranks-per-node 2 --preflight warn" "--job compile --set backend=pjrt --set pjrt.plugin=cpu" \
    "--nodes 2 --tasks node --max-restarts 3 --spare-nodes 1 --preflight exclude"; do
    # shellcheck disable=SC2086
    expect 0 "wrote" "$drover" launch slurm "${job[@]}" $options --out "taken/$((i += 1))"
done
expect 0 "wrote" "$drover" launch slurm --job data --instance-file machine.yaml --out taken/data -- data build --input $'a b\n#' --out x
for script in taken/*/*.sbatch; do
    expect 0 "to start at" sbatch --test-only "$script"
done

# --- a life
expect 0 "submitted as job" "$drover" launch slurm "${job[@]}" --nodes 2 --submit --out life
running() { "$drover" launch status life >out 2>&1 && out_has "run: running" && out_has "running, step" && ! out_has "step 0 of"; }
wait_for running
says "scheduler  running on n[1-2]" "of 100000, attempt 1"
wait_for eval '"$drover" launch logs life --lines 1 | grep -q "loss"'
expect 2 "is running; expected drover launch stop life before" "$drover" launch clean life --yes
expect 0 "run: ended" "$drover" launch stop life
says "stopped, step" "saved step"
expect 0 "run: stopped, by slurm" "$drover" launch status life
expect 0 "to be removed" "$drover" launch clean life --yes
check "the run stays, the job is gone" test -e runs/run/status.json -a ! -e life
expect 0 "submitted as job" "$drover" launch slurm "${job[@]}" --nodes 2 --submit --out again
wait_for eval '"$drover" launch status again | grep -q "running, step.*attempt 2"'
expect 0 "stopped, step" "$drover" launch stop again

# --- with --max-restarts the ranks are started again within the step, which ends when node 0 does
expect 0 "submitted as job" "$drover" launch slurm "${job[@]}" --nodes 2 --tasks node --max-restarts 3 --set run_dir=runs/held --submit --out held
began() { [ "$(grep -c '"event": *"running"' runs/held/events.jsonl)" -ge "$1" ]; } # N: so many attempts
wait_for began 1
killed=
for pid in $(pgrep -f "^drover train .*run_dir=runs/held"); do # of this test, not of another one on this machine
    [ "$(readlink /proc/$pid/cwd)" != "$dir" ] || { kill -KILL $pid && killed=$pid && break; }
done
check "a rank is killed" test -n "$killed"
wait_for began 2
expect 0 "stopped, step" "$drover" launch stop held
check "one job, one step: no try is used up" bash -c '! grep -q "try 1" run-*.log && ! ls .drover-over-* .run.tries 2>/dev/null'
finish
