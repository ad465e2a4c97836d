#!/bin/bash
# examples/launch/hosts.sh: ranks of mpirun on hosts that ssh reaches; other programs, hosts that do not answer, another
# try after status 75, a stop that saves. ssh is a program here that runs its command on this machine.
hosts=$(realpath "$(dirname "$0")/../examples/launch/hosts.sh")
. "$(dirname "$0")"/ranks.bash
make_data
mkdir bin
ln -s "$drover" bin/drover
cat >bin/ssh <<'SH'
#!/bin/bash
while [[ $1 == -* ]]; do
    [ "$1" != -o ] || shift
    shift
done
[ "$1" != lost ] || exit 255
[ "$1" != old ] || { echo "drover 0.0.1"; exit 0; }
shift
exec "$@"
SH
cat >bin/mpirun <<SH
#!/bin/bash
[ ! -e fails ] || { rm fails; exit 75; }
exec $(command -v mpirun) "\$@"
SH
chmod +x bin/*
export PATH=$PWD/bin:$PATH WAIT=0

printf '# ours\nlocalhost slots=2\n' >hostfile
expect 0 "1 hosts, 2 ranks, start 1" "$hosts" hostfile run.yaml --set training.steps=6 --set run_dir=first
check "two ranks of it" grep -q '"ranks": *2' first/status.json
touch fails
expect 0 "ended with 75: once more" "$hosts" hostfile run.yaml --set training.steps=6 --set run_dir=second
says "start 2"
touch fails
expect 75 "" env TRIES=0 "$hosts" hostfile run.yaml --set training.steps=6 --set run_dir=third
check "the same weights" cmp first/checkpoints/step-000006/model.safetensors second/checkpoints/step-000006/model.safetensors

# --- TERM saves, and is no reason for another try
"$hosts" hostfile run.yaml --set training.steps=1000000 --set run_dir=stopped >stopped.log 2>&1 &
job=$!
wait_for test -s stopped/metrics.jsonl
kill -TERM $job
wait_end $job
check "stopped with 3, not $?" test $? = 3
check "and saved" test -d stopped/checkpoints

# --- so does TERM before another try, of which there is none
touch fails
WAIT=600 "$hosts" hostfile run.yaml --set training.steps=6 --set run_dir=between >between.log 2>&1 &
job=$!
wait_for grep -q "once more" between.log
kill -TERM $job
wait_end $job
check "stopped between two tries with 75, not $?" test $? = 75
check "and started again" test ! -e between

echo "old slots=1" >>hostfile
expect 1 "old has drover 0.0.1, expected drover" "$hosts" hostfile run.yaml
echo "lost" >hostfile
expect 75 "lost does not answer" "$hosts" hostfile run.yaml
echo "# none" >hostfile
expect 2 "hostfile names no host" "$hosts" hostfile run.yaml
expect 2 "usage: hosts.sh HOSTFILE CONFIG" "$hosts" nothing run.yaml
finish
