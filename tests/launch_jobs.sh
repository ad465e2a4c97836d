#!/bin/bash
# Jobs that `drover launch KIND` writes: for every kind, size and type of machine; held against the schemas of their
# operators where those are at hand, and against shells; odd names; what is refused; examples/launch, which are its output.
tree=$(realpath "$(dirname "$0")/..")
. "$(dirname "$0")"/story.bash
export DROVER_THREADS=2
shared=
for folder in "$tree/../shared" "$tree/../../shared"; do [ ! -x "$folder/tools/validate-manifests" ] || shared=$folder; done
[ -n "$shared" ] && echo "checks manifests by $shared/tools/validate-manifests" || echo "no validate-manifests beside the tree: manifests are written, not checked"
cat >run.yaml <<'YAML'
model: {preset: tiny}
data: {train: data/set, sequence_length: 64}
training: {steps: 10, global_batch_size: 16384, micro_batch_size: 1}
YAML
pods="--image registry.example/drover:1 --pvc claim"
options() { # KIND TYPE: what each needs
    case $1 in slurm) ;; *) echo "$pods" ;; esac
    case $2 in trn*) echo "--set backend=pjrt --set pjrt.plugin=neuron" ;; p*) echo "--set backend=pjrt --set pjrt.plugin=cuda" ;; esac
}

# --- every kind, size and machine: every two of them, and all three on CPUs
k=0
for kind in slurm "slurm --tasks node" trainjob "trainjob --policy mpi" "trainjob --policy torch" mpi-operator pytorchjob ray volcano; do
    k=$((k + 1)) t=0
    for type in trn1.32xlarge trn2.48xlarge p5.48xlarge cpu; do
        t=$((t + 1)) n=0
        for nodes in 1 16 128; do
            n=$((n + 1))
            [ $type = cpu ] || [ $(((k + t + n) % 3)) = 0 ] || continue
            # shellcheck disable=SC2046,SC2086 # words
            expect 0 "next:" "$drover" launch $kind run.yaml --nodes $nodes --instance $type $(options ${kind%% *} $type) \
                --out "jobs/${kind// /}-$type-$nodes"
        done
    done
done
# shellcheck disable=SC2086
for kind in slurm trainjob; do
    more=$pods
    [ $kind != slurm ] || more=
    expect 0 "compile" "$drover" launch $kind run.yaml --job compile --instance cpu --set backend=pjrt --set pjrt.plugin=cpu $more --out jobs/$kind-compile
    expect 0 "data" "$drover" launch $kind --job data --instance cpu $more --out jobs/$kind-data -- data build --input $'a b\n"#' --out 'x$y'
done
check "all were written" test "$(find jobs -type f ! -name launch.json | wc -l)" -ge 70
check "scripts are bash" bash -c 'for f in jobs/*/*.sbatch; do bash -n "$f" || exit 1; done'
if command -v shellcheck >/dev/null; then shellcheck -e SC2016 jobs/*/*.sbatch >out 2>&1 && ok || bad "shellcheck" out; fi
manifests=$(find jobs -name '*.yaml')
if [ -n "$shared" ]; then
    # shellcheck disable=SC2086
    "$shared/tools/validate-manifests" -q $manifests >out 2>&1 && ok || bad "validate-manifests" out
    "$shared/tools/validate-manifests" -q --schemas "$shared/schemas/older/trainer-2.1" jobs/trainjob*/*.yaml >out 2>&1 && ok || bad "Trainer 2.1" out
fi

# --- what every pod has: no rights, no token, limits equal to requests, a sized /dev/shm where ranks are
if python3 -c 'import yaml' 2>/dev/null; then
    # shellcheck disable=SC2086
    python3 - $manifests >out 2>&1 <<'PY' && ok || bad "pods are restricted" out
import sys, yaml
def pods(o):
    if isinstance(o, dict):
        if "containers" in o:
            yield o
        for value in o.values():
            yield from pods(value)
    elif isinstance(o, list):
        for value in o:
            yield from pods(value)
n = 0
for path in sys.argv[1:]:
    for document in yaml.safe_load_all(open(path)):
        assert document["kind"] != "Secret", path
        for pod in pods(document):
            n += 1
            security = pod["securityContext"]
            assert security["runAsNonRoot"] is True and security["runAsUser"] == 1000, path
            assert security["seccompProfile"] == {"type": "RuntimeDefault"}, path
            assert pod["automountServiceAccountToken"] is False, path
            assert pod["terminationGracePeriodSeconds"] == 600, path
            for container in pod["containers"] + pod.get("initContainers", []):
                rights = container["securityContext"]
                assert rights["allowPrivilegeEscalation"] is False and rights["capabilities"]["drop"] == ["ALL"], path
                efa = "vpc.amazonaws.com/efa" in container["resources"]["limits"]
                assert rights["capabilities"].get("add", []) == (["IPC_LOCK"] if efa else []), path
                assert container["resources"]["limits"] == container["resources"]["requests"], path
            for volume in pod.get("volumes", []):
                assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"], path
                assert "secret" not in volume or volume["secret"]["defaultMode"] == 0o440, path
assert n > 60, n
PY
fi

# --- a name stays a name: what a person wrote comes back to the byte, from a shell and from YAML
odd=$'run_dir="a\'b\\"c $HOME $(id) `id` #d"'
expect 0 "next:" "$drover" launch slurm run.yaml --nodes 2 --instance cpu --set "$odd" --out odd
sed -n "/^program=(/,/^tries/p" odd/train.sbatch | sed '/^tries/d' >part
# shellcheck disable=SC1091,SC2154
check "a shell gives it back" bash -c '. ./part; [ "${program[6]}" = "$1" ] && [ "$run_dir" = "$2" ]' \
    x "$odd" "a'b\"c \$HOME \$(id) \`id\` #d"
bash -n odd/train.sbatch && ok || bad "the script is broken"
for kind in "trainjob --policy torch" mpi-operator ray; do
    # shellcheck disable=SC2086
    expect 0 "next:" "$drover" launch $kind run.yaml --nodes 2 --instance cpu $pods --set "$odd" --out "odd-${kind%% *}"
done
if python3 -c 'import yaml' 2>/dev/null; then
    python3 - "$odd" >out 2>&1 <<'PY' && ok || bad "YAML gives it back" out
import json, sys, yaml
odd = sys.argv[1]
def documents(path):
    return list(yaml.safe_load_all(open(path)))
doubled = odd.replace("$", "$$")  # Kubernetes makes one of two
assert documents("odd-trainjob/trainjob.yaml")[2]["spec"]["trainer"]["command"][-1] == doubled
launcher = documents("odd-mpi-operator/mpijob.yaml")[1]["spec"]["mpiReplicaSpecs"]["Launcher"]
assert launcher["template"]["spec"]["containers"][0]["command"][-1] == doubled
files = documents("odd-ray/rayjob.yaml")[0]["data"]
assert json.loads(files["job.json"])["command"][-1] == odd
assert files["ray_nodes.py"] == open("odd-ray/ray_nodes.py").read()
assert files["run.yaml"] == open("run.yaml").read()
PY
fi

check "a line break, too" grep -qF "data build --input 'a b" jobs/slurm-data/data.sbatch
# shellcheck disable=SC2016
printf '#!/bin/bash\nprintf "%%s|" "$@"\n' >srun && chmod +x srun
check "and the shell gives it back" test "$(PATH=$PWD:$PATH bash jobs/slurm-data/data.sbatch)" = $'drover|data|build|--input|a b\n"#|--out|x$y|'

# --- a launcher of mpirun waits for all hosts, whichever way its operator writes them down
if python3 -c 'import yaml' 2>/dev/null; then
    mkdir waits
    for kind in mpi-operator volcano; do
        python3 - jobs/$kind-cpu-16/*.yaml >waits/$kind.sh 2>out <<'PY' || bad "$kind: waits" out
import re, sys, yaml
text = open(sys.argv[1]).read()
(pod,) = [c for c in re.split(r"^---\n", text, flags=re.M) if "initContainers" in c]
def find(o):
    if isinstance(o, dict):
        if "initContainers" in o:
            return o["initContainers"][0]
        o = list(o.values())
    for each in o if isinstance(o, list) else []:
        if find(each):
            return find(each)
first = find(yaml.safe_load(pod))
if "mpi-operator" in sys.argv[1]:  # which mounts what it adds into the launcher itself alone
    assert {m["name"]: m["mountPath"] for m in first["volumeMounts"]} == {"ssh-auth": "/home/drover/.ssh", "mpi-job-config": "/etc/mpi"}
script = first["command"][2].replace("$$", "$")
print(re.sub(r"</\S+$", "<hosts", script))
PY
    done
    cat >waits/ssh <<'SH'
#!/bin/bash
for word; do case $word in run-*) echo "$word" >>asked; [ "$word" != run-1 ] || [ "$(grep -c run-1 asked)" -gt 2 ] && exit 0; exit 255 ;; esac; done
SH
    printf '#!/bin/bash\n' >waits/sleep
    chmod +x waits/*
    cd waits || exit 1
    for kind in mpi-operator volcano; do
        rm -f asked
        case $kind in volcano) printf 'run-0\nrun-1\nrun-2' ;; *) printf 'run-%s slots=8\n' 0 1 2 ;; esac >hosts
        PATH=$PWD:$PATH sh $kind.sh >../out 2>&1 && ok || bad "$kind: it does not wait" ../out
        check "$kind: for each host" test "$(tr '\n' ' ' <asked)" = "run-0 run-1 run-1 run-1 run-2 "
    done
    cd .. || exit 1
fi

# --- compiled programs stay on the volume, where the run and the job that compiles find the same ones
for options in "" "--job compile" "--job compile --set run_dir=/shared/runs/x" "--set pjrt.cache=mine" "--set run_dir=alone"; do
    # shellcheck disable=SC2086
    expect 0 "next" "$drover" launch pytorchjob run.yaml --instance trn1.32xlarge $pods --set backend=pjrt --set pjrt.plugin=neuron $options --out kept
    case $options in *alone) cache=compiled ;; *mine) cache=mine ;; */shared*) cache=/shared/runs/compiled ;; *) cache=runs/compiled ;; esac
    check "\"$options\": $cache" test "$(sed -nE 's/^ *- "?pjrt.cache=([^"]*)"?$/\1/p' kept/*.yaml | sort -u)" = "$cache"
    rm -r kept
done
check "none where nothing is compiled" bash -c '! grep -rq pjrt.cache jobs/*-cpu-*'

# --- refused: one line, exit 2, and nothing is written
refused() { # TEXT WORDS...
    local text=$1
    shift
    expect 2 "$text" "$drover" launch "$@" --out refused
    check "one line from: $*" test "$(wc -l <out)" = 1
    check "nothing is written by: $*" test ! -e refused
}
# shellcheck disable=SC2086
{
refused '--instance "p6" is unknown, expected trn1.32xlarge' slurm run.yaml --instance p6
refused "--instance is missing" slurm run.yaml
refused "the nearest that would do: 2 or 4 nodes" slurm run.yaml --instance cpu --nodes 3
refused 'leaves the 8 devices of p5.48xlarge idle' slurm run.yaml --instance p5.48xlarge
refused "a rank needs" slurm run.yaml --instance cpu --set model.preset=llama-3-70b --set training.global_batch_size=1
refused "has 1.00 MiB for it" slurm run.yaml --instance p5.48xlarge --device h100,memory=1MiB --set backend=pjrt --set training.global_batch_size=8
refused 'no device profile "h10", expected one of' slurm run.yaml --instance cpu --device h10
refused 'training.precision is fp8, and trn1' slurm run.yaml --instance trn1.32xlarge --set backend=pjrt --set training.global_batch_size=32 --set training.precision=fp8
refused '"Run" is not a name for a job' slurm run.yaml --instance cpu --name Run
refused "the last pod would be" mpi-operator run.yaml --instance cpu --nodes 512 $pods --name "$(printf 'a%.0s' $(seq 53))"
refused "expected at most 47 for ray" ray run.yaml --instance cpu $pods --name "$(printf 'a%.0s' $(seq 48))"
refused "--image is missing" trainjob run.yaml --instance cpu --pvc claim
refused "--pvc is missing" trainjob run.yaml --instance cpu --image x
refused '--image: "a b" is not an image' trainjob run.yaml --instance cpu --pvc claim --image "a b"
refused '--image: "r/UPPER" is not an image' ray run.yaml --instance cpu --pvc claim --image r/UPPER
refused '--pvc: "A" is not the name of a claim' trainjob run.yaml --instance cpu --pvc A --image x
refused "--namespace: \"a.b\" is not a namespace" trainjob run.yaml --instance cpu $pods --namespace a.b
refused "--queue: \"a b\" is not the name of a queue" slurm run.yaml --instance cpu --queue "a b"
refused '--mount: "shared" is not a place' trainjob run.yaml --instance cpu $pods --mount shared
refused "--shm: 60.00 GiB of /dev/shm" trainjob run.yaml --instance cpu $pods --shm 60G
refused '--time is "0:00", expected a time from 1 s to 27 years' slurm run.yaml --instance cpu --time 0:00
refused '--time is "90", which has no unit, expected 90s or 90m' slurm run.yaml --instance cpu --time 90
refused '--time is "1e308", expected a time from 1 s' slurm run.yaml --instance cpu --time 1e308
refused '--time is "1:2:3:4", expected a time from 1 s' slurm run.yaml --instance cpu --time 1:2:3:4
refused '--preflight is "x", expected off, warn or exclude' slurm run.yaml --instance cpu --preflight x
refused "--preflight is an option of drover launch node, expected a job that runs it (--policy torch)" trainjob run.yaml --instance cpu $pods --preflight warn
refused "--max-restarts is an option of drover launch node, expected a job that runs it (--tasks node)" slurm run.yaml --instance cpu --max-restarts 1
refused "--spare-nodes is an option of drover launch node, expected a job that runs it (--policy torch)" trainjob run.yaml --instance cpu $pods --nodes 2 --spare-nodes 1
for kind in mpi-operator volcano; do
    for option in "--max-restarts 1" "--restart-window 1h" "--min-nodes 1" "--spare-nodes 1" "--grow-after 5m" "--preflight warn"; do
        refused "${option% *} is an option of drover launch node, expected a job that runs it (pytorchjob, ray" $kind run.yaml --instance cpu --nodes 2 $pods $option
    done
done
refused '--max-restarts is "0.5", expected a whole number' ray run.yaml --instance cpu $pods --max-restarts 0.5
refused '--restart-window is "x", expected a time' ray run.yaml --instance cpu $pods --restart-window x
refused '--grow-after is "90", which has no unit, expected 90s or 90m' ray run.yaml --instance cpu $pods --grow-after 90
refused '--grow-after is "-1s", expected a time' ray run.yaml --instance cpu $pods --grow-after=-1s
refused "--min-nodes 5, expected at most the 4 nodes that are not spare" pytorchjob run.yaml --instance cpu $pods --nodes 5 --spare-nodes 1 --min-nodes 5
refused "--spare-nodes 2, expected fewer than the 2 nodes" pytorchjob run.yaml --instance cpu $pods --nodes 2 --spare-nodes 2
refused "--nodes 4 with 1 spare, of 1 ranks each" ray run.yaml --instance cpu $pods --nodes 4 --spare-nodes 1
refused "the nearest that would do: 3 or 5 nodes" ray run.yaml --instance cpu $pods --nodes 4 --spare-nodes 1
# 7B needs 18 bytes a parameter: 56 GiB have a quarter of that, not a half.
large="$pods --set model.preset=llama-2-7b --set parallel.tensor=8 --set training.global_batch_size=8"
refused "--min-nodes 2: no layout of 2 ranks" pytorchjob run.yaml --instance cpu $large --nodes 8 --min-nodes 2
expect 0 "8 nodes x 1 rank" "$drover" launch pytorchjob run.yaml --instance cpu $large --nodes 8 --min-nodes 4 --out fewest
refused "--job compile has no ranks, expected no --max-restarts" ray run.yaml --instance cpu $pods --job compile --max-restarts 1
refused "--progress is for ranks that mpirun starts, expected --policy mpi" trainjob run.yaml --instance cpu $pods --policy torch --namespace ns --progress
refused "--progress needs --namespace" trainjob run.yaml --instance cpu $pods --progress
refused '--tasks is "x", expected rank or node' slurm run.yaml --instance cpu --tasks x
refused '--job is "x", expected train, compile or data' slurm run.yaml --instance cpu --job x
refused 'backend "cpu" has nothing to compile' slurm run.yaml --instance cpu --job compile
neuron="--instance trn1.32xlarge --job compile --set backend=pjrt --set pjrt.plugin=neuron"
refused "the layout asks for 64 devices, and one trn1.32xlarge of the job has 32" trainjob run.yaml $pods $neuron --set parallel.tensor=32 --set parallel.data=2
refused "works on one machine" slurm run.yaml --instance cpu --job compile --nodes 2
refused 'runs "drover rm"' slurm --instance cpu --job data -- rm -rf /
refused "unexpected argument" slurm run.yaml other --instance cpu
refused "is not text in UTF-8" slurm --instance cpu --job data -- data $'\xff'
}
printf 'cpus: 8\nmemory: 5\n' >machine.yaml
expect 2 'machine.yaml:2: unknown key "memory"' "$drover" launch slurm run.yaml --instance-file machine.yaml --out refused
expect 2 "there is no sbatch in PATH" env PATH=/nowhere "$drover" launch slurm run.yaml --instance cpu --submit --out refused
check "nothing is written" test ! -e refused
mkdir full && touch full/x
expect 2 '"full" is there already' "$drover" launch slurm run.yaml --instance cpu --out full
check "what is there stays, and nothing is left beside it" bash -c '[ -e full/x ] && ! ls -d full.* 2>/dev/null'

# --- the grace is what saves have taken: twice the longest, and a minute
mkdir -p runs/run
event() { echo "{\"time\": $1, \"mono\": $1, \"attempt\": 1, \"event\": \"$2\", \"step\": 1, $3}"; }
{ event 1 save '"seconds": 12.2, "blocked_s": 0, "bytes": 1'; event 2 save '"seconds": 100.5, "blocked_s": 0, "bytes": 1'
  event 3 evaluation '"seconds": 900, "val_loss": 1'; } >runs/run/events.jsonl
# shellcheck disable=SC2086
expect 0 "--grace 261: twice the longest save of \"runs/run\", 100.5 s, and a minute" "$drover" launch trainjob run.yaml --instance cpu $pods --out graced
check "it is that of the pods" grep -q "terminationGracePeriodSeconds: 261" graced/trainjob.yaml
# shellcheck disable=SC2086
expect 0 "next" "$drover" launch slurm run.yaml --instance cpu --grace 7 --preflight exclude --out measured
check "a given one counts" grep -q "signal=B:USR1@67" measured/train.sbatch
check "nodes are measured before" grep -q 'doctor --node "$run_dir" --hosts' measured/train.sbatch
if command -v shellcheck >/dev/null; then shellcheck -e SC2016 measured/*.sbatch >out 2>&1 && ok || bad "shellcheck, with --preflight" out; fi
# shellcheck disable=SC2086
expect 0 "next" "$drover" launch volcano run.yaml --instance cpu --nodes 2 $pods --queue trainium2 --out queued
check "the queue of Volcano" grep -qx "  queue: trainium2" queued/volcano.yaml
for kind in pytorchjob ray "trainjob --policy torch"; do # shellcheck disable=SC2086
    expect 0 "next" "$drover" launch $kind run.yaml --instance cpu --nodes 2 $pods --preflight exclude --out "by ${kind%% *}"
    check "$kind: launch node measures them" grep -qE -- "--preflight,? *exclude|--preflight$" "by ${kind%% *}/${kind%% *}.yaml" "by ${kind%% *}/rayjob.yaml"
done 2>/dev/null
rm -r runs

# --- what follows a failure arrives at drover launch node; spare nodes are of the job, and not of its layout
rules=(--max-restarts 5 --restart-window 30m --min-nodes 2 --spare-nodes 1 --grow-after 90s --preflight exclude)
for kind in "slurm --tasks node" pytorchjob ray "trainjob --policy torch"; do # shellcheck disable=SC2046,SC2086
    expect 0 "4 nodes (and 1 spare) x 1 rank" "$drover" launch $kind run.yaml --instance cpu --nodes 5 $(options ${kind%% *} cpu) "${rules[@]}" --out "ruled/${kind%% *}"
    rm "ruled/${kind%% *}/launch.json"
    given=$(sed '/Made by/d' "ruled/${kind%% *}/"* | tr -cs 'a-z0-9' ' ') # words, whatever a list looks like
    [[ $given == *" ranks per node 1 max restarts 5 restart window 30m min nodes 2 spare nodes 1 grow after 90s preflight exclude expect ranks 4 "* ]] && ok || bad "$kind hands them on"
done
check "five machines: Slurm" grep -qx "#SBATCH --nodes=5" ruled/slurm/train.sbatch
check "a lost node ends neither job" grep -qx "#SBATCH --no-kill" ruled/slurm/train.sbatch
check "nor step" grep -q "^srun --kill-on-bad-exit=0 --no-kill .*--mpi=none" ruled/slurm/train.sbatch
check "five machines: PyTorchJob" grep -q "replicas: 4" ruled/pytorchjob/pytorchjob.yaml
check "five machines: TrainJob" test "$(grep -c "numNodes: 5" ruled/trainjob/trainjob.yaml)" = 2
check "five machines: Ray, whose program leaves the word to node 0" bash -c 'grep -q "\"nodes\": 5" ruled/ray/rayjob.yaml && grep -q "\"restarts\": true" ruled/ray/rayjob.yaml'
if command -v shellcheck >/dev/null; then shellcheck -e SC2016 ruled/slurm/train.sbatch >out 2>&1 && ok || bad "shellcheck, with --max-restarts" out; fi
[ -z "$shared" ] || { "$shared/tools/validate-manifests" -q ruled/*/[^s]*.yaml >out 2>&1 && ok || bad "validate-manifests, with --max-restarts" out; }

# --- the token for progress: Trainer gives it to the pods of its own step, which by the mpi policy are the launcher's alone
# shellcheck disable=SC2086
expect 0 "next" "$drover" launch trainjob run.yaml --instance cpu --nodes 2 $pods --namespace ns --progress --out progress
[ -z "$shared" ] || { "$shared/tools/validate-manifests" -q progress/*.yaml >out 2>&1 && ok || bad "validate-manifests, with --progress" out; }
if python3 -c 'import yaml' 2>/dev/null; then
    python3 - >out 2>&1 <<'PY' && ok || bad "the token is where ranks are" out
import yaml
_, runtime, job = yaml.safe_load_all(open("progress/trainjob.yaml"))
node, launcher = (j["template"]["spec"]["template"]["spec"] for j in runtime["spec"]["template"]["spec"]["replicatedJobs"])
(volume,) = (v["projected"]["sources"] for v in node["volumes"] if v["name"] == "progress")
assert volume[0]["serviceAccountToken"]["audience"] == "trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs/run/status"
assert volume[1]["configMap"]["name"] == "run-tls-config" and volume[1]["configMap"]["optional"] is True
(place,) = (m["mountPath"] for m in node["containers"][0]["volumeMounts"] if m["name"] == "progress")
assert place == "/var/run/secrets/kubeflow/trainer"
assert node["automountServiceAccountToken"] is False
assert "progress" not in [v["name"] for v in launcher["volumes"]]  # Trainer's own is called kubeflow-trainer-token
words = job["spec"]["trainer"]["command"]
for name in ("URL", "CA_CERT", "TOKEN"):
    assert words[words.index(f"KUBEFLOW_TRAINER_SERVER_{name}") - 1] == "-x", words
PY
fi
check "none without --progress" bash -c '! grep -rq "projected\|KUBEFLOW" jobs'

# --- submitted by the scheduler's own program: its words, and a secret that no argument and no file holds
mkdir bin
cat >bin/kubectl <<'SH'
#!/bin/bash
printf '%s|' "$@" >>calls
echo >>calls
case "$*" in *--parsable*) echo 4711 ;; *" get "*|"get "*) exit 1 ;; *create*) cat >given ;; *fails*) exit 7 ;; esac
SH
cp bin/kubectl bin/sbatch && chmod +x bin/*
# shellcheck disable=SC2086
expect 0 "" env PATH="$PWD/bin:$PATH" "$drover" launch pytorchjob run.yaml --nodes 2 --instance cpu $pods --namespace ns --submit --out sent
printf '%s\n' '--namespace|ns|get|secret|run-secret|--output=name|' '--namespace|ns|create|-f|-|' '--namespace|ns|apply|-f|sent/pytorchjob.yaml|' >expected
cmp -s calls expected && ok || bad "words of kubectl" calls
secret=$(python3 -c 'import json; print(json.load(open("given"))["stringData"]["secret"])')
check "a secret of 32 bytes" test ${#secret} = 64
check "that stands nowhere" bash -c '! grep -qr "$1" sent calls out' x "$secret"
rm calls
expect 0 "" env PATH="$PWD/bin:$PATH" "$drover" launch slurm run.yaml --nodes 2 --instance cpu --submit --out sent-slurm
printf '%s\n' '--test-only|sent-slurm/train.sbatch|' '--parsable|sent-slurm/train.sbatch|' >expected
cmp -s calls expected && ok || bad "words of sbatch" calls
expect 1 "sbatch ended with status 7" env PATH="$PWD/bin:$PATH" "$drover" launch slurm run.yaml --instance cpu --submit --out fails

# --- examples/launch is what the commands at the head of its files write
cd "$tree" || exit 1
n=0
for folder in examples/launch/*/; do
    for command in $(grep -h '^# Made by: ' "$folder"* | sed 's/^# Made by: drover //' | sort -u | tr ' ' '\a'); do
        IFS=$'\a' read -ra words <<<"$command"
        made=$dir/made-$((n += 1))
        options=("${words[@]}")
        "$drover" "${options[0]}" "${options[1]}" --out "$made" "${options[@]:2}" >"$dir/out" 2>&1 || bad "${words[*]}" "$dir/out"
        for file in "$made"/*; do
            [ "${file##*/}" != launch.json ] || continue # of a folder with one job
            cmp -s "$file" "$folder$(basename "$file")" && ok || bad "$folder$(basename "$file") is not what it says that made it"
        done
    done
done
check "there are examples" test $n -ge 8

# --- docs/launch-manifests.md says of each field of others what ours has
if python3 -c 'import yaml' 2>/dev/null; then python3 tests/manifest_table.py . >"$dir/out" 2>&1 && ok || bad "docs/launch-manifests.md" "$dir/out"; fi
cd "$dir" || exit 1
finish
