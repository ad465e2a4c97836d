#!/bin/bash
# drover launch status, logs, stop and clean: the exact words that squeue, scancel and kubectl get, by programs that record
# them; what is made of their answers, and of their hanging, failing, printing rubbish or 100 MB; folders that were changed by
# hand. usage: launch_look.sh DROVER
. "$(dirname "$0")"/story.bash
cat >run.yaml <<'YAML'
model: {preset: tiny}
data: {train: data/set, sequence_length: 64}
training: {steps: 10, global_batch_size: 64, micro_batch_size: 1}
YAML
mkdir bin
# Records its words, and answers as the file that is named after the first of them says; as $AS says where that is set.
cat >bin/fake <<'SH'
#!/bin/bash
here=$(dirname "$0")/..
printf '%s|' "${0##*/}" "$@" >>"$here/calls"
echo >>"$here/calls"
case $AS in
hang) exec sleep 1000 ;;
fail) echo "noise" >&2; echo "the server is not there" >&2; exit 7 ;;
rubbish) printf '\001\033[31m{'; head -c 100000 /dev/urandom; exit 0 ;;
huge) yes 'a line of 32 bytes, over and ov' | head -c 100000000; exit 0 ;;
huge-errors) yes 'an error of 32 bytes, over and o' | head -c 100000000 >&2; exit 1 ;;
esac
word=${0##*/}
for each in "$@"; do case $each in get|delete|logs|exec|create|apply|queue|cancel) word+=-$each ;; pods) word+=-pods ;; --output=name) word+=-names ;; esac; done
[ ! -e "$here/$word.out" ] || cat "$here/$word.out"
[ ! -e "$here/$word.next" ] || mv "$here/$word.next" "$here/$word.out"
exit 0
SH
chmod +x bin/fake
for name in squeue scancel sbatch kubectl; do ln -s fake bin/$name; done
export PATH=$PWD/bin:$PATH
words() { # WHAT LINE...: the words of the calls since the last time
    local what=$1
    shift
    printf '%s\n' "$@" >expected
    if cmp -s calls expected; then ok; else bad "words of $what" calls; fi
    rm -f calls
}
status_json() { # STATE END: what a run's status.json says
    cat <<JSON
{"version": 1, "state": "$1", "time": 1700000000.5, "step": 7, "steps": 10, "loss": 2.5, "tokens_per_s": 100.0, "eta_s": 61.0,
 "attempt": 2, "ranks": 4, "nodes": 4, "host": "n1", "pid": 12, "saved_step": 6, "end": $2, "status": $3,
 "cause": $4, "message": $5, "failed_rank": $6, "failed_host": $7}
JSON
}
running() { status_json running null null null null null null; }
failed() { status_json ended '"failed"' 75 '"hang"' '"rank 3 does not answer"' 3 '"n4"'; }

# --- Slurm
echo "4711;cluster" >sbatch.out
expect 0 "submitted as job 4711" "$drover" launch slurm run.yaml --nodes 4 --instance cpu --submit --out slurm
words "sbatch" 'sbatch|--test-only|slurm/train.sbatch|' 'sbatch|--parsable|slurm/train.sbatch|'
ask='squeue|--me|--noheader|--format|%i|%T|%N|%r|%k|'
printf '4710|RUNNING|n9|None|\n4711|PENDING||Resources|(null)\n' >squeue.out
expect 0 "run: queued, by slurm, job 4711, 4 nodes x 1 rank" "$drover" launch status slurm
says "scheduler  queued: Resources" "not known: there is no \"$PWD/runs/run/status.json\" here yet"
words "status" "$ask"
mkdir -p runs/run
running >runs/run/status.json
printf '4711|RUNNING|n[1-4]|None|(null)\n' >squeue.out
expect 0 "run: running, by slurm" "$drover" launch status slurm
says "scheduler  running on n[1-4]" "run        running, step 7 of 10, attempt 2, loss 2.5, saved step 6, 1:01 to go"
expect 0 '"state": "running"' "$drover" launch status slurm --json
# So does one beside jobs of an array and heterogeneous ones, and beside a comment of several lines.
printf '4700_[1,3,5,...]|PENDING||Priority|\n4701+0|RUNNING|n9|None|\n4702|RUNNING|n8|None|two\nlines\n4711|RUNNING|n[1-4]|None|(null)\n' >squeue.out
expect 0 "scheduler  running on n[1-4]" "$drover" launch status slurm
# A try on other hosts is another job, which says of which one it is.
printf '4712|RUNNING|n[5-8]|None|drover:4711\n4713|RUNNING|n9|None|drover:471\n' >squeue.out
expect 0 "job 4712" "$drover" launch status slurm
: >squeue.out
failed >runs/run/status.json
expect 0 "run: failed, by slurm" "$drover" launch status slurm
says "no such job (any more)" "failed, step 7 of 10" "cause hang, rank 3 on n4: rank 3 does not answer"
expect 0 '"failed_rank": 3' "$drover" launch status slurm --json
running >runs/run/status.json
expect 0 "run: lost, by slurm" "$drover" launch status slurm
rm -f calls
printf 'one\ntwo\nthree\n\033[31mfour\n' >run-4711.log
expect 0 $'three\n?[31mfour' "$drover" launch logs slurm --lines 2
check "two lines" test "$(wc -l <out)" = 2
words "logs" "$ask"
expect 0 "there is nothing to stop" "$drover" launch stop slurm
words "stop of what has ended" "$ask"
printf '4711|RUNNING|n[1-4]|None|(null)\n' >squeue.out
: >squeue.next
expect 0 "run: ended" "$drover" launch stop slurm
words "stop" "$ask" 'scancel|--signal=USR1|4711|' "$ask"
printf '4711|PENDING||Priority|(null)\n' >squeue.out
: >squeue.next
expect 0 "run: ended" "$drover" launch stop slurm
words "stop of what waits" "$ask" 'scancel|4711|' "$ask"
printf '4711|RUNNING|n[1-4]|None|(null)\n' >squeue.out
expect 75 "still runs after 1 s; without a save: scancel 4711" "$drover" launch stop slurm --wait 1
rm -f calls
expect 2 "is running; expected drover launch stop slurm before" "$drover" launch clean slurm --yes
: >squeue.out
rm -f calls
expect 2 "nothing was removed; expected y, or --yes" "$drover" launch clean slurm </dev/null
says "  $PWD/run-4711.log" "  slurm/train.sbatch" "  slurm/launch.json"
check "all is there" test -e slurm/launch.json -a -e run-4711.log
expect 0 "to be removed" "$drover" launch clean slurm <<<y
check "gone, but for the run" test ! -e slurm -a ! -e run-4711.log -a -e runs/run/status.json
words "clean" "$ask" "$ask"
expect 0 "" "$drover" launch slurm run.yaml --instance cpu --out byhand
expect 0 "run: unknown, by slurm" "$drover" launch status byhand
says "drover has not submitted it"
expect 2 "its number is not known" "$drover" launch stop byhand
expect 2 "its log is run-NUMBER.log" "$drover" launch logs byhand
check "nobody was asked" test ! -e calls

# --- Kubernetes
labels='"labels": {"app.kubernetes.io/instance": "run", "app.kubernetes.io/name": "drover"}'
object() { echo "{\"kind\": \"X\", \"metadata\": {\"name\": \"run\", $labels}, \"status\": $1}"; }
pods() { # PHASE [STATUS]: a launcher and a worker
    printf '{"items": [{"metadata": {"name": "run-node-0-0"}, "status": {"phase": "%s" %s}}, {"metadata": {"name": "run-launcher-0-0"}, "status": {"phase": "%s"}}]}\n' "$1" "$2" "$1"
}
pod_words='--image r/d:1 --pvc claim --namespace team'
get='kubectl|--namespace|team|get|'
selector='--selector=app.kubernetes.io/instance=run,app.kubernetes.io/name=drover|'
look() { # TYPE: the words of a status
    echo "${get}$1|run|--ignore-not-found|--output=json|"
    echo "${get}pods|$selector--output=json|"
}
declare -A types=([trainjob]=trainjob.trainer.kubeflow.org [mpi-operator]=mpijob.kubeflow.org [pytorchjob]=pytorchjob.kubeflow.org
    [ray]=rayjob.ray.io [volcano]=job.batch.volcano.sh)
for kind in trainjob mpi-operator pytorchjob ray volcano; do
    # shellcheck disable=SC2086
    expect 0 "drover launch status $kind" "$drover" launch $kind run.yaml --nodes 2 --instance cpu $pod_words --out $kind
    object '{}' >kubectl-get.out
    pods Pending ', "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]' >kubectl-get-pods.out
    expect 0 "run: queued, by $kind" "$drover" launch status $kind
    says "scheduler  queued: run-node-0-0: Unschedulable: 0/3 nodes"
    mapfile -t asked < <(look "${types[$kind]}")
    words "status of $kind" "${asked[@]}"
    pods Running >kubectl-get-pods.out
    running >kubectl-exec.out
    expect 0 "run: running, by $kind" "$drover" launch status $kind
    says "running on run-node-0-0, run-launcher-0-0" "step 7 of 10"
    words "status of $kind" "${asked[@]}" "kubectl|--namespace|team|exec|run-launcher-0-0|--|cat|/shared/runs/run/status.json|"
    printf 'words of a pod\n' >kubectl-logs.out
    expect 0 "words of a pod" "$drover" launch logs $kind --lines 5
    words "logs of $kind" "${asked[@]}" "kubectl|--namespace|team|logs|--tail=5|run-launcher-0-0|"
    : >kubectl-get.next
    echo '{"items": []}' >kubectl-get-pods.next
    expect 0 "run: ended" "$drover" launch stop $kind
    words "stop of $kind" "${asked[@]}" "kubectl|--namespace|team|delete|${types[$kind]}|run|--ignore-not-found|--wait=false|" "${asked[@]}"
done
object '{"conditions": [{"type": "Suspended", "status": "True", "reason": "Queued", "message": "waiting"}]}' >kubectl-get.out
expect 0 "queued: Queued: waiting" "$drover" launch status trainjob
object '{"conditions": [{"type": "Suspended", "status": "False"}, {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}' >kubectl-get.out
expect 0 "scheduler  failed: BackoffLimitExceeded" "$drover" launch status trainjob
object '{"jobDeploymentStatus": "Complete", "jobStatus": "FAILED", "message": "Job failed"}' >kubectl-get.out
expect 0 "scheduler  failed: Complete: Job failed" "$drover" launch status ray
object '{"state": {"phase": "Completed"}}' >kubectl-get.out
expect 0 "run: done, by volcano" "$drover" launch status volcano
labels='"labels": {"app.kubernetes.io/instance": "other"}'
object '{}' >kubectl-get.out
expect 2 "belongs to another job: its label app.kubernetes.io/instance is \"other\"" "$drover" launch status trainjob
expect 2 "belongs to another job" "$drover" launch stop trainjob
expect 2 "belongs to another job" "$drover" launch clean trainjob --yes
check "nothing of another's was removed" bash -c '! grep -q delete calls'
rm -f calls
: >kubectl-get.out
printf '%s\n' trainjob.trainer.kubeflow.org/run configmap/run-config configmap/other-config trainingruntime.trainer.kubeflow.org/run >kubectl-get-names.out
expect 0 "to be removed" "$drover" launch clean trainjob --yes
remove() { echo "kubectl|--namespace|team|delete|$1|--ignore-not-found|--wait=false|"; }
mapfile -t asked < <(look trainjob.trainer.kubeflow.org)
words "clean" "${asked[@]}" "${get}trainjob.trainer.kubeflow.org,trainingruntime.trainer.kubeflow.org,configmap|$selector--output=name|" \
    "$(remove trainjob.trainer.kubeflow.org/run)" "$(remove trainingruntime.trainer.kubeflow.org/run)" "$(remove configmap/run-config)"
check "gone" test ! -e trainjob
rm -f kubectl-get-names.out

# --- programs that hang, fail, print rubbish or too much: one line, in time
one_line() { check "$1: one line" test "$(wc -l <out)" = 1; }
echo 4711 >sbatch.out
expect 0 "submitted as job 4711" "$drover" launch slurm run.yaml --nodes 4 --instance cpu --submit --out slurm
for kind in slurm mpi-operator; do
    rubbish="printed text that is not JSON"
    [ $kind != slurm ] || rubbish='squeue printed "'
    for verb in status logs stop "clean --yes"; do
        # shellcheck disable=SC2086
        {
            AS=hang expect 75 "did not end within 0.3 s, and was ended" "$drover" launch ${verb%% *} $kind ${verb#"${verb%% *}"} --limit 0.3
            one_line "hang, $verb"
            AS=fail expect 1 "ended with status 7: the server is not there" "$drover" launch ${verb%% *} $kind ${verb#"${verb%% *}"}
            one_line "fail, $verb"
            AS=rubbish expect 1 "$rubbish" "$drover" launch ${verb%% *} $kind ${verb#"${verb%% *}"}
            one_line "rubbish, $verb"
        }
    done
done
for words in "status mpi-operator" "logs slurm" "stop mpi-operator" "clean slurm --yes"; do # shellcheck disable=SC2086
    AS=huge expect 1 "printed more than 16 MiB" "$drover" launch $words
    one_line "huge, $words"
done
AS=huge-errors expect 1 "kubectl get ended with status 1: " "$drover" launch status mpi-operator
one_line "huge errors"
check "the folder of Slurm is there" test -e slurm/launch.json
# The same where a job is handed over, which has no limit of the user's: a signal ends it.
submits() { # CODE TEXT KIND
    # shellcheck disable=SC2086
    expect $1 "$2" "$drover" launch $3 run.yaml --nodes 2 --instance cpu $([ $3 = slurm ] || echo $pod_words) --submit --out "handed over/$AS $3"
    check "$AS, --submit of $3: one line" test "$(grep -c "^drover: " out)" = $(($1 > 0))
}
for kind in slurm pytorchjob; do
    AS=fail submits 1 "ended with status 7: the server is not there" $kind
done
AS=rubbish submits 1 '--submit: sbatch printed "' slurm
AS=huge submits 1 '--submit: sbatch printed "a line of 32 bytes' slurm
AS=rubbish submits 0 "submitted" pytorchjob
check "a terminal gets none of kubectl's control characters" test "$(tr -d '\1-\10\13-\37\177' <out | wc -c)" = "$(wc -c <out)"
check "the folder is there" test -e mpi-operator/launch.json
sed -i 's/^hang)/&kill -TERM $PPID;/' bin/fake
AS=hang expect 3 "was ended by a signal" "$drover" launch status mpi-operator
AS=hang submits 3 "--submit: sbatch was ended by a signal" slurm
AS=hang submits 3 "--submit: kubectl get was ended by a signal" pytorchjob
expect 2 "there is no kubectl in PATH" env PATH=/nowhere "$drover" launch status mpi-operator

# --- files that a user has edited: only what identifies the job is read, so the verbs go on. Each field but the job's own name,
# namespace and labels has another value; then the files are gone, or no files at all.
cat >edit.py <<'PY'
import json, sys, yaml
KEPT = {"apiVersion", "kind"}
def edited(o, path=()):
    if isinstance(o, dict):
        return {k: v if k in KEPT or path == ("metadata",) and k in ("name", "namespace", "labels") else edited(v, path + (k,)) for k, v in o.items()}
    if isinstance(o, list):
        return [edited(v, path) for v in o]
    return not o if isinstance(o, bool) else o + 1 if isinstance(o, (int, float)) else f"{o}-mine"
for path in sys.argv[1:]:
    text = open(path).read()
    if path.endswith(".yaml"):
        text = yaml.safe_dump_all([edited(o) for o in yaml.safe_load_all(text)])
    else:
        text = "\n".join(line if line.startswith("#!") else line + " # mine" for line in text.splitlines())
    open(path, "w").write(text)
PY
looked_after() { # KIND HOW: status, stop and clean of the folder odd, without a word about its files
    rm -f ./*.next
    object '{}' >kubectl-get.out
    pods Running >kubectl-get-pods.out
    printf '4711|RUNNING|n[1-4]|None|(null)\n' >squeue.out
    expect 0 "run: running, by $1" "$drover" launch status odd
    : >kubectl-get.next
    echo '{"items": []}' >kubectl-get-pods.next
    : >squeue.next
    expect 0 "run: ended" "$drover" launch stop odd
    expect 0 "to be removed" "$drover" launch clean odd --yes
    check "$1, $2: cleaned" test ! -e odd/launch.json
    rm -rf odd
}
labels='"labels": {"app.kubernetes.io/instance": "run", "app.kubernetes.io/name": "drover"}'
for kind in slurm mpi-operator pytorchjob trainjob ray volcano; do
    rm -rf made odd # shellcheck disable=SC2046,SC2086
    expect 0 "next:" "$drover" launch $kind run.yaml --nodes 2 --instance cpu $([ $kind = slurm ] || echo $pod_words) --out made
    [ $kind != slurm ] || sed -i 's/"submitted": null/"submitted": {"time": 1.0, "id": "4711", "folder": "\/tmp"}/' made/launch.json
    if python3 -c 'import yaml' 2>/dev/null; then
        cp -r made odd && python3 edit.py odd/*.*[!n]
        check "$kind: edited" bash -c '! cmp -s "$1" odd/"${1##*/}"' x "$(find made -name '*[yh]' | head -n 1)"
        looked_after $kind edited
    fi
    case $kind in slurm | volcano) ;; *) continue ;; esac
    cp -r made odd && rm odd/*[!n]
    looked_after $kind "files are gone"
    cp -r made odd && sed -i 's/"nodes": 2/"nodes": 3/; s/"grace_s": [0-9]*/"grace_s": 7/; s/"version": 1,/&\n "mine": 1,/' odd/launch.json
    looked_after $kind "launch.json, too"
done
cp -r made odd && rm odd/volcano.yaml && mkfifo odd/volcano.yaml
looked_after volcano "a pipe in the place of a file"
cp -r made odd && sed -i 's/"grace_s": [0-9]*/"grace_s": 7/' odd/launch.json
object '{}' >kubectl-get.out
pods Running >kubectl-get-pods.out
: >kubectl-get.next
echo '{"items": []}' >kubectl-get-pods.next
expect 0 "waiting for 67 s" "$drover" launch stop odd
rm -rf odd

# --- folders of others, of other versions, and keys of another form
refused() { # TEXT DIR
    local verb
    rm -f calls
    for verb in status logs stop clean; do
        expect 2 "$1" "$drover" launch $verb "$2"
        one_line "$verb of $2"
    done
    check "nobody was asked about $2" test ! -e calls
}
refused 'there is no "nothing/launch.json"' nothing
changed() { rm -rf odd && cp -r ray odd && sed -i "$1" odd/launch.json; }
changed 's/"version": 1/"version": 2/'
refused 'odd/launch.json: key "version" is 2, expected 1: another version' odd
changed 's/"name": "run"/"name": "--help"/'
refused 'odd/launch.json: key "name" is not valid, expected the name of a job' odd
changed 's/"nodes": 2/"nodes": 2, "nodes": 3/'
refused "odd/launch.json" odd
changed 's/^{/[/; s/^}/]/'
refused "odd/launch.json" odd
changed 's/"rayjob.yaml"/"..\/..\/rayjob.yaml"/'
refused 'odd/launch.json: key "files" is not valid, expected names of files' odd
# A folder of an earlier version, with hashes.
changed 's/"files": \[/"hash": "00", "files": {/; s/"\(rayjob.yaml\|raycluster.yaml\)",\?/"\1": "00",/; s/"ray_nodes.py"/&: "00"/; s/^ \],/ },/'
expect 0 "by ray" "$drover" launch status odd
finish
