#!/bin/bash
# The script of `drover launch slurm`, run with programs that stand for Slurm's: how often a job is requeued, and that what it reads
# from files is taken for numbers and names, never for words of a shell. usage: slurm_script.sh DROVER
. "$(dirname "$0")"/story.bash
cat >run.yaml <<'YAML'
model: {preset: tiny}
data: {train: data/set, sequence_length: 64}
training: {steps: 10, global_batch_size: 16, micro_batch_size: 1}
YAML
mkdir bin
cat >bin/srun <<'SH'
#!/bin/bash
case "$*" in *--version) cat versions && exit "$(cat asked)" ;; *" doctor "*) cat slow 2>/dev/null; exit ;; esac
[ ! -e limit ] || { read -r _ _ _ batch _ </proc/$PPID/stat && kill -USR1 "$batch"; } # the shell that waits for the step's
[ ! -e step ] || { echo $(($(cat step) + 1)) >step; printf '{\n  "saved_step": %s,\n  "status": 3,\n  "attempt": %s\n}\n' "$(cat step)" "$(cat step)" >runs/run/status.json; }
[ ! -e said ] || cp -p said runs/run/status.json
for word in "$@"; do case $word in "$PWD"/.drover-over-*) cat over >"$word" ;; esac; done
exit "$(cat code)"
SH
printf '#!/bin/bash\necho "$@" >>requeued\n' >bin/scontrol
printf '#!/bin/bash\nprintf "%%s\\n" "$@" >>submitted\n' >bin/sbatch
printf '#!/bin/bash\n' >bin/scancel
chmod +x bin/*
export PATH=$PWD/bin:$PATH SLURM_JOB_ID=7 SLURM_NNODES=1 SLURM_JOB_NODELIST=n1
job() { # DIR OPTION...
    local out=$1
    shift
    expect 0 "wrote" "$drover" launch slurm run.yaml --instance cpu --name run --tries 2 --out "$out" "$@"
}
# starts N CODE SCRIPT: the script ends with CODE and is requeued, N times in all (or is not, the last time)
starts() {
    local n=$1 code=$2 i
    for ((i = 1; i <= n; i++)); do expect "$code" "" timeout 300 bash "$3"; done
}
requeues() { check "$1: requeued $(wc -l <requeued) times" test "$(wc -l <requeued)" = "$2"; }
fresh() { rm -rf runs .run.tries requeued submitted limit step said slow; mkdir -p runs/run; touch requeued; echo 1 >versions; echo 0 >asked; }
job plain
job ranked --preflight exclude
job held --tasks node --max-restarts 1
if command -v shellcheck >/dev/null; then shellcheck -e SC2016 plain/train.sbatch ranked/train.sbatch held/train.sbatch >out 2>&1 && ok || bad "shellcheck" out; fi

# --- another try after 75: counted
fresh
echo 75 >code
starts 3 75 plain/train.sbatch
requeues "status 75" 2
# --- the program is asked for its version on each node: a step that fails is a try, other versions are an end
for versions in "" 1 1,1; do # of the nodes that have answered
    for script in plain held; do
        fresh
        tr , '\n' <<<"$versions" >versions
        echo 143 >asked
        starts 2 75 $script/train.sbatch
        requeues "srun fails" 2
        expect 75 "could not start the program on all nodes in 2 tries" timeout 300 bash $script/train.sbatch
        requeues "no try is left" 2
        check "the tries are over" test ! -e .run.tries
    done
done
fresh
printf '1\n2\n1\n' >versions
expect 1 "the nodes do not have one and the same program: 1, 2" timeout 300 bash plain/train.sbatch
requeues "two versions" 0
# --- a time limit: a start that saves no further step is a try, one that does is none
fresh
echo 3 >code && touch limit
starts 3 3 plain/train.sbatch
requeues "nothing is saved before a limit" 2
fresh
touch limit && echo 5 >step && echo 1 >.run.tries
starts 6 3 plain/train.sbatch
requeues "a step is saved before each limit" 6
check "tries are kept" test "$(cat .run.tries)" = 1
rm step
starts 2 3 plain/train.sbatch
requeues "and then none is" 7

# --- an attempt that fails before its first step leaves the status of the last one, written anew: it does not count
fresh
echo 2 >code
echo '{"attempt": 4, "saved_step": 10, "status": 0, "x": 1}' | tee said >runs/run/status.json
touch -d 'next hour' said
expect 2 "" timeout 300 bash plain/train.sbatch
# --- one of this attempt does, though the file server's clock is slow
echo 143 >code
echo '{"attempt": 5, "saved_step": 10, "status": 3, "x": 1}' >said
touch -d '1 hour ago' said
expect 3 "" timeout 300 bash plain/train.sbatch

# --- a limit that leaves no time
for time in 10m 11m; do
    expect 2 "--time: $((${time%m} * 60)) s" "$drover" launch slurm run.yaml --instance cpu --time $time --out short
    says "asked to save 660 s before the limit (--grace 600 and 60 s of Slurm's)"
    check "nothing is written" test ! -e short
done
job long --time 12m
job quick --time 2m --grace 30

# --- what files hold: each word a shell would run in arithmetic, or take for another
echo 75 >code
for word in 'tries[$(touch harmed)]' 'a[`touch harmed`]' '$(touch harmed)' '1;touch harmed' '-5' '99999999999999999999' 'tries' '0x10' '' $'1\n2'; do
    fresh
    printf '%s' "$word" >.run.tries
    expect 75 "try 1 of 2" timeout 300 bash plain/train.sbatch
    check "\"$word\": counted on" test "$(cat .run.tries)" = 1
    fresh
    printf '%s' "$word" >.run.tries && echo n9 >slow
    expect 75 "try 1 of 2 without n9" timeout 300 bash ranked/train.sbatch
    fresh
    printf '{"saved_step": %s, "status": %s, "attempt": 1}' "$word" "$word" >said
    expect 75 "" timeout 300 bash plain/train.sbatch
    check "\"$word\": nothing of it is run" test ! -e harmed
done
for word in 'tries[$(touch harmed)]' '-5'; do
    fresh
    printf '%s' "$word" >over
    expect 75 "try 1 of 2" timeout 300 bash held/train.sbatch # node 0 has not said how it ended
    check "\"$word\": nothing of it is run" test ! -e harmed
done
fresh
echo 08 >.run.tries
expect 75 "ended with 75 after 2 tries" timeout 300 bash plain/train.sbatch
fresh
for _ in 1 2; do for host in n3 '$(touch harmed)' '--export=ALL' 'n4,n5' 'n6 n7'; do
    echo "{\"event\":\"failure\",\"rank\":0,\"host\":\"$host\",\"cause\":\"peer\"}" >>runs/run/events.jsonl
done; done
expect 75 "the next try excludes n3" timeout 300 bash plain/train.sbatch
check "of names, hosts alone" grep -qx -- "--exclude=n3" submitted
finish
