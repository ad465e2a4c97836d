#!/bin/bash
# Each row of the table of `drover launch node --explain`, twice, end to end, with nodes on this machine: what is never
# restarted (memory that the system takes back by killing, by a control group; a loss that is not finite, a row that is none,
# a config that does not fit, a refused checkpoint, a stop), and what is (a rank that is killed, and again, after which its
# node is left out; one that hangs; a device that fails, by a plugin around XLA's for processors; a full disk after half a
# minute; the same step on three hosts twice and then no more); a job that is done, one whose run directory another one has, one
# without ranks, one without node 0. Nodes that come back: elastic.sh. Needs root for the control group and a tmpfs. ROWS: only
# those rows, of lost, hang, device, memory, ends, rest (all). Seven minutes on two cores, and what the row `ends` takes.
# usage: [ROWS="ROW..."] policy.sh PROGRAM
here=$(realpath "$(dirname "$0")")
. "$(dirname "$0")"/../tests/nodes.bash
sed -i 's/checkpoint:.*/checkpoint: {every: 20, keep: 0}/; s/training: {/training: {log_every: 10, /' run.yaml
begin() { # NODES RUN SETTING...
    local n=$1 run=$2 sets
    shift 2
    new_port
    mapfile -t sets < <(settings run_dir="$run" "$@")
    for i in $(seq 0 $((n - 1))); do
        [ "$i" != 1 ] || [ -z "$within" ] || echo $$ >"$within/cgroup.procs" # and what it starts from here on
        node "$i" "$n" --max-restarts 9 --min-nodes "${least:-$n}" --wait 60 "${sets[@]}"
    done
    [ -z "$within" ] || echo $$ >"${within%/*}/cgroup.procs"
}
ends() { # CODE TEXT RUN RESTARTS NODE...
    local code=$1 text=$2 run=$3 times=$4
    shift 4
    ended "$run" "$code" "$@"
    told 0 "$text"
    [ "$(restarts "$run")" = "$times" ] || [ "$times" = 0 -a ! -e "$run/events.jsonl" ] && ok || bad "$run: $(restarts "$run") restarts, not $times" node-0.out
    echo "$run: exit $code, $times restarts: $(grep -F -- "$text" node-0.out | tail -n 1)"
}
wanted() { [ -z "$ROWS" ] || [[ " $ROWS " == *" $1 "* ]]; } # ROW
at_end() {
    umount full1 full2 2>/dev/null
    [ -z "$group" ] || rmdir "$group"
}
within= group= # of memory: version 2, or 1
for g in /sys/fs/cgroup/drover-policy-$$ /sys/fs/cgroup/memory/drover-policy-$$; do
    mkdir "$g" 2>/dev/null && [ -e "$g/memory.max" -o -e "$g/memory.limit_in_bytes" ] && group=$g && break
    rmdir "$g" 2>/dev/null
done
[ -n "$group" ] || echo "skipped: memory, no control group can be made"
forever=training.steps=100000
plugins=(${DROVER_PJRT_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/drover/pjrt}/cpu/*.so)
if ! cc -std=c17 -D_GNU_SOURCE -shared -fPIC -I "$here/../src" -DFAULT_PLUGIN="\"${plugins[0]}\"" -DFAULT_FILE="\"$dir/fault\"" \
    -o faulty.so "$here/faulty_plugin.c" -ldl || [ ! -e "${plugins[0]}" ]; then
    echo "skipped: device, no plugin (tools/fetch_pjrt.py cpu gets one) or compiler" && plugins=()
fi
export DROVER_COMPILE_CACHE=$dir/cache
for k in 1 2; do
    if wanted lost; then
        least=1
        begin 2 lost$k $forever
        least=
        for n in 1 2; do
            finished lost$k 5
            kill -KILL "$(rank_of 1)"
            follows runs_again lost$k $n
        done
        kill -TERM "$(launcher 0)"
        ends 3 "it is excluded" lost$k 2 0 1
    fi
    if wanted hang; then
        begin 2 hang$k $forever parallel.give_up_s=6
        finished hang$k 5
        kill -STOP "$(rank_of 1)"
        follows runs_again hang$k 1
        kill -TERM "$(launcher 0)"
        ends 3 "hang on node 1" hang$k 1 0 1
    fi
    if wanted device && [ ${#plugins[@]} -gt 0 ]; then
        begin 1 device$k $forever backend=pjrt pjrt.plugin=./faulty.so
        finished device$k 5
        touch fault
        follows runs_again device$k 1
        kill -TERM "$(launcher 0)"
        ends 3 "device on node 0" device$k 1 0
    fi
    if wanted memory && [ -n "$group" ]; then
        limit=$([ -e "$group/memory.max" ] && echo memory.max || echo memory.limit_in_bytes)
        echo 500M >"$group/$limit"
        within=$group # node 1
        begin 2 memory$k $forever checkpoint.every=100000
        within=
        finished memory$k 5
        echo 1000 >"/proc/$(rank_of 1)/oom_score_adj" # the first that the system kills
        (echo $BASHPID >"$group/cgroup.procs"; exec timeout 60 python3 -c 'import time; x = [bytearray(1 << 20) for i in range(480)]; time.sleep(20)') >hog.out 2>&1 &
        hog=$!
        ends 75 "no restart: the plan beside the peak is printed" memory$k 0 0 1
        kill -KILL $hog 2>/dev/null
        wait $hog 2>/dev/null
    fi
    if wanted ends; then
        begin 2 done$k training.steps=5
        ends 0 "step 5" done$k 0 0 1
        begin 2 held$k $forever
        finished held$k 5
        new_port
        for i in 0x 1x; do node $i 2 --max-restarts 9 --set run_dir=held$k; done
        ended "held$k" 75 0x 1x
        told 0x "no restart: the scheduler's turn"
        kill -TERM "$(launcher 0)"
        ends 3 "stopped by" held$k 0 0 1
        mkdir -p broken && printf '#!/bin/sh\nexit 1\n' >broken/mpirun && chmod +x broken/mpirun
        PATH=$dir/broken:$PATH begin 2 no_ranks$k
        ends 1 "mpirun could not start the ranks" no_ranks$k 0 0 1
        begin 2 head$k $forever
        finished head$k 5
        kill -KILL "$(launcher 0)"
        ended "head$k" 75 1
        told 1 "node 0 is gone"
    fi
    wanted rest || continue
    begin 2 nan$k training.steps=2000 optimizer.lr=1e3 optimizer.clip_grad_norm=0 schedule.type=constant schedule.warmup_steps=0 training.max_bad_steps=1 checkpoint.every=0
    ends 1 "no restart: another try gives the same bits" nan$k 0 0 1
    cp -r data bad$k.data
    python3 - bad$k.data/set.bin <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(0, 2)
    n = f.tell()
    for at in range(0, n, 64):  # a token that no vocabulary of 400 has
        f.seek(at)
        f.write(b"\xff\xff")
PY
    begin 2 row$k data.train=bad$k.data/set training.steps=200
    ends 1 "no restart: another try gives the same bits" row$k 0 0 1
    begin 3 config$k training.steps=200 # rows that three ranks do not divide
    ends 2 "no restart: another try gives the same" config$k 0 0 1 2
    begin 2 stop$k $forever
    finished stop$k 25
    kill -$([ $k = 1 ] && echo TERM || echo USR1) "$(launcher $((k - 1)))"
    ends 3 "stopped by" stop$k 0 0 1
    cp -r stop$k refused$k && rm refused$k/.lock
    sed -i 's/"hidden_size": [0-9]*/"hidden_size": 32/' refused$k/checkpoints/*/config.json
    begin 2 refused$k $forever
    ends 1 "no restart: another try gives the same bits" refused$k 0 0 1
    mkdir full$k && mount -t tmpfs -o size=30m tmpfs full$k
    begin 2 full$k/run $forever checkpoint.keep=2 checkpoint.give_up_minutes=0
    finished full$k/run 25
    head -c 100M /dev/zero >full$k/filler 2>/dev/null
    wait_for grep -q "restart in 30 s" node-0.out
    rm full$k/filler
    wait_for eval "[ \"\$(restarts full$k/run)\" = 1 ]"
    wait_for eval "grep '\"event\":\"running\"' full$k/run/events.jsonl | tail -n 1 | grep -q '\"attempt\":2,'"
    kill -TERM "$(launcher 0)"
    ends 3 "restart in 30 s" full$k/run 1 0 1
    umount full$k
    # Steps of seconds: on each of three hosts a rank is lost in step 3.
    begin 3 same$k $forever checkpoint.every=100000 training.global_batch_size=768 model.num_hidden_layers=4
    for victim in 1 2 0; do
        wait_for eval "[ \"\$(grep -c '\"event\":\"running\"' same$k/events.jsonl)\" = $((1 + (victim == 2) + 2 * (victim == 0))) ]"
        wait_for eval "tail -n 1 same$k/metrics.jsonl | grep -q '\"step\":2,'"
        kill -KILL "$(rank_of $victim)"
        [ $victim = 0 ] || wait_for eval "[ \"\$(restarts same$k)\" = $((1 + (victim == 2))) ]"
    done
    ends 1 "step 3 has failed on 3 different hosts" same$k 2 0 1 2
done
finish
