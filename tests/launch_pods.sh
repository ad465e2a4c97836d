#!/bin/bash
# What an operator adds to a generated job: variables, secrets, labels, places, names of the cluster, gangs, a page; in every kind for
# Kubernetes, held against the schemas where they are at hand. usage: launch_pods.sh DROVER
tree=$(realpath "$(dirname "$0")/..")
. "$(dirname "$0")"/story.bash
export DROVER_THREADS=2
for folder in "$tree/../shared" "$tree/../../shared"; do [ ! -x "$folder/tools/validate-manifests" ] || shared=$folder; done
[ -n "${shared-}" ] && echo "checks manifests by $shared/tools/validate-manifests" || echo "no validate-manifests beside the tree: manifests are written, not checked"
cat >run.yaml <<'YAML'
model: {preset: tiny}
data: {train: data/set, sequence_length: 64}
training: {steps: 10, global_batch_size: 16384, micro_batch_size: 1}
YAML
pods=(--image registry.example/drover:1 --pvc claim)
more=(--env 'GREETING=a "b" $(HOME): c=d' --env EMPTY= --env FI_PROVIDER=tcp --secret-env HF_TOKEN=hub:token --label team=nlp --label example.org/cost=a1 --label shared=
    --annotation 'example.org/note=yes: "it" is' --toleration gpu --toleration pool=train:NoSchedule --node-selector zone=a
    --image-pull-secret registry --image-pull-secret mirror --priority-class high --service-account trainer)
for kind in "trainjob --policy mpi" "trainjob --policy torch" mpi-operator pytorchjob ray volcano; do # shellcheck disable=SC2086
    expect 0 "tokens/s by the profile h100" "$drover" launch $kind run.yaml --nodes 2 --instance p5.48xlarge --set backend=pjrt --set pjrt.plugin=cuda "${pods[@]}" "${more[@]}" \
        --out "jobs/${kind// /}"
done
expect 0 "next:" "$drover" launch ray --job data --instance cpu "${pods[@]}" "${more[@]}" --out jobs/data -- model get hf:org/gated
grep -h "^# Made by: " jobs/*/* >made
check "the command names variables, without their values" bash -c 'grep -q -- "--env GREETING=\.\.\." made && ! grep -q "HOME" made'
expect 2 "words, but Trainer accepts 128" "$drover" launch trainjob run.yaml --instance cpu "${pods[@]}" $(printf -- '--env V%s=1 ' {1..60}) --out many
if [ -n "${shared-}" ]; then "$shared/tools/validate-manifests" -q jobs/*/*.yaml >out 2>&1 && ok || bad "validate-manifests" out; fi
if python3 -c 'import yaml' 2>/dev/null; then
    python3 - jobs/*/*.yaml >out 2>&1 <<'PY' && ok || bad "each pod has them" out
import sys, yaml
def pods(o, metadata=None):
    if isinstance(o, dict):
        if "containers" in o:
            yield metadata, o
        for value in o.values():
            yield from pods(value, o.get("metadata"))
    elif isinstance(o, list):
        for value in o:
            yield from pods(value)
n = n_with = 0
for path in sys.argv[1:]:
    for document in yaml.safe_load_all(open(path)):
        assert document["metadata"]["labels"]["team"] == "nlp", path
        assert document["metadata"]["labels"]["shared"] == "", path
        for metadata, pod in pods(document):
            n += 1
            assert metadata["labels"]["example.org/cost"] == "a1" and metadata["labels"]["app.kubernetes.io/name"] == "drover", path
            assert metadata["annotations"] == {"example.org/note": 'yes: "it" is'}, path
            assert pod["nodeSelector"]["zone"] == "a", path
            assert pod["tolerations"][-2:] == [{"key": "gpu", "operator": "Exists"},
                {"key": "pool", "operator": "Equal", "value": "train", "effect": "NoSchedule"}], path
            assert pod["imagePullSecrets"] == [{"name": "registry"}, {"name": "mirror"}], path
            assert (pod["priorityClassName"], pod["serviceAccountName"]) == ("high", "trainer"), path
            for container in pod["containers"]:
                env = {v["name"]: v for v in container.get("env", [])}
                if "HF_TOKEN" not in env:
                    continue
                n_with += 1
                assert len(env) == len(container["env"]) and env["FI_PROVIDER"]["value"] == "tcp", path
                assert env["HF_TOKEN"]["valueFrom"] == {"secretKeyRef": {"name": "hub", "key": "token"}}, path
                assert env["GREETING"]["value"].replace("$$", "$") == 'a "b" $(HOME): c=d' and env["EMPTY"]["value"] == "", path
                words = container.get("command") or []
                if words and words[0] == "mpirun":  # whose ranks get it from the launcher
                    assert all(words[words.index(name) - 1] == "-x" for name in ("GREETING", "EMPTY", "HF_TOKEN")), path
                    assert words.count("FI_PROVIDER") == 1, path
assert n >= 12 and n_with >= 8, (n, n_with)
PY
fi

# --- one place for all ranks, a gang, a cluster that stays, a limit of time
of() { # KIND OPTION...: jobs/places-N
    expect 0 "next:" "$drover" launch "$1" run.yaml --nodes 2 --instance cpu "${pods[@]}" "${@:2}" --out "places/$((n_places += 1))"
}
rack=topology.k8s.aws/network-node-layer-3
of pytorchjob --queue team --topology $rack
of pytorchjob --topology $rack
of mpi-operator --topology $rack
of trainjob --queue team --topology $rack
of ray --gang --queue train --priority-class high --topology 2
of ray --cluster kuberay-trn1 --env GREETING=hi --time 90m
of volcano --topology 1 --time 24h
expect 0 "next:" "$drover" launch slurm run.yaml --nodes 2 --instance cpu --topology 1 --out places/slurm
check "Slurm's switches" grep -qx "#SBATCH --switches=1" places/slurm/train.sbatch
if [ -n "${shared-}" ]; then "$shared/tools/validate-manifests" -q places/*/*.yaml >out 2>&1 && ok || bad "validate-manifests, of places" out; fi
if python3 -c 'import yaml' 2>/dev/null; then
    python3 - $rack >out 2>&1 <<'PY' && ok || bad "places, gangs and clusters" out
import json, sys, yaml
rack = sys.argv[1]
def read(number, name):
    return [o for o in yaml.safe_load_all(open(f"places/{number}/{name}.yaml")) if o["kind"] != "ConfigMap"]
def near(template):
    (term,) = template["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    labels = template["metadata"]["labels"]
    return term["topologyKey"] == rack and term["labelSelector"]["matchLabels"].items() <= labels.items()
def kueue(template):
    return {k.removeprefix("kueue.x-k8s.io/podset-"): v for k, v in template["metadata"].get("annotations", {}).items()}
(job,) = read(1, "pytorchjob")
for role in job["spec"]["pytorchReplicaSpecs"].values():
    assert kueue(role["template"]) == {"required-topology": rack, "group-name": "run"} and "affinity" not in role["template"]["spec"]
(job,) = read(2, "pytorchjob")
assert all(near(role["template"]) for role in job["spec"]["pytorchReplicaSpecs"].values())
roles = read(3, "mpijob")[0]["spec"]["mpiReplicaSpecs"]
assert near(roles["Worker"]["template"]) and "affinity" not in roles["Launcher"]["template"]["spec"]
assert "app.kubernetes.io/component" not in roles["Launcher"]["template"]["metadata"]["labels"]
node, launcher = (j["template"]["spec"]["template"] for j in read(4, "trainjob")[0]["spec"]["template"]["spec"]["replicatedJobs"])
assert kueue(node) == {"required-topology": rack} and kueue(launcher) == {}
for name in ("rayjob", "raycluster"):
    (ray,) = read(5, name)
    gang = {k: v for k, v in ray["metadata"]["labels"].items() if not k.startswith("app.")}
    assert gang == {"ray.io/scheduler-name": "volcano", "volcano.sh/queue-name": "train", "ray.io/priority-class-name": "high",
        "volcano.sh/network-topology-mode": "hard", "volcano.sh/network-topology-highest-tier-allowed": "2"}, gang
    assert "suspend" not in ray["spec"]
(ray,) = read(6, "rayjob")
spec = ray["spec"]
assert spec["clusterSelector"] == {"ray.io/cluster": "kuberay-trn1"} and spec["activeDeadlineSeconds"] == 5400
assert not spec.keys() & {"rayClusterSpec", "backoffLimit", "suspend", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished"}
assert json.loads(spec["runtimeEnvYAML"])["env_vars"]["GREETING"] == "hi"
job, = (json.loads(o["data"]["job.json"]) for o in yaml.safe_load_all(open("places/6/rayjob.yaml")) if o["kind"] == "ConfigMap")
assert job["sent"] in job["command"] and job["folder"] == "/shared"
(job,) = read(7, "volcano")
master, worker = job["spec"]["tasks"]
assert job["spec"]["networkTopology"] == {"mode": "hard", "highestTierAllowed": 1}
assert master["template"]["spec"]["activeDeadlineSeconds"] == 86400 and "activeDeadlineSeconds" not in worker["template"]["spec"]
PY
fi
check "a job for a cluster that stays brings none" test ! -e places/6/raycluster.yaml

# --- the page: a Deployment, a Service and a Secret of its own, and the command that it runs
of pytorchjob --page --namespace team --set training.http=0.0.0.0:8081
page=places/$n_places
says "kubectl --namespace team apply -f $page/pytorchjob.yaml -f $page/page.yaml" \
    "create secret generic run-page --from-file=password=/dev/stdin" "port-forward service/run-page 8080"
if [ -n "${shared-}" ]; then "$shared/tools/validate-manifests" -q "$page"/*.yaml >out 2>&1 && ok || bad "validate-manifests, of the page" out; fi
mkdir bin
cat >bin/kubectl <<'SH'
#!/bin/bash
printf '%s|' "$@" >>calls
echo >>calls
case "$*" in "get "*) exit 1 ;; *create*) cat >>given ;; esac
SH
chmod +x bin/kubectl
expect 0 "submitted" env PATH="$PWD/bin:$PATH" "$drover" launch mpi-operator run.yaml --nodes 2 --instance cpu "${pods[@]}" --page --submit --out sent
check "a password is made, and both files are applied" test "$(tail -n 3 calls)" = "get|secret|run-page|--output=name|
create|-f|-|
apply|-f|sent/mpijob.yaml|-f|sent/page.yaml|"
check "a password of 64 letters" grep -qE '"name":"run-page".*"password":"[0-9a-f]{64}"' given
if python3 -c 'import yaml' 2>/dev/null; then
    python3 - "$page" >out 2>&1 <<'PY' && ok || bad "the page, and probes" out
import shlex, sys, yaml
deployment, service = yaml.safe_load_all(open(f"{sys.argv[1]}/page.yaml"))
labels = deployment["spec"]["template"]["metadata"]["labels"]
assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == labels == {
    "app.kubernetes.io/name": "drover-page", "app.kubernetes.io/instance": "run"}  # its pods are none of the job
pod = deployment["spec"]["template"]["spec"]
(container,) = pod["containers"]
assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": 8080}
assert [v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v] == ["run-page"]
(job,) = [o for o in yaml.safe_load_all(open(f"{sys.argv[1]}/pytorchjob.yaml")) if o["kind"] == "PyTorchJob"]
master, worker = (job["spec"]["pytorchReplicaSpecs"][r]["template"]["spec"]["containers"][0] for r in ("Master", "Worker"))
for probe, least in (("livenessProbe", 600), ("startupProbe", 1800)):  # a run compiles, and starts again
    assert master[probe]["httpGet"] == {"path": "/healthz", "port": 8081} and probe not in worker
    assert master[probe]["periodSeconds"] * master[probe]["failureThreshold"] >= least
open("command", "w").write(shlex.join(container["command"][1:]))
PY
    printf 'a-password-of-27-letters...' >password
    mkdir -p runs/run
    echo '{"version": 1, "state": "ended", "time": 1700000000.5, "step": 7, "steps": 10, "loss": 2.5, "end": "failed", "status": 75}' >runs/run/status.json
    read -ra words <<<"$(sed 's#0.0.0.0:8080#'"$address"':0#; s#/run/drover-page/##' command)"
    "$drover" "${words[@]}" >page.out 2>&1 &
    pid=$!
    wait_for eval "grep -q http:// page.out || is_gone $pid"
    url=$(sed -nE 's#.*(http://[0-9.:]+)/.*#\1#p' page.out)
    ask() { # PATH PASSWORD: status and the challenge
        python3 -c 'import base64, sys, urllib.request, urllib.error
request = urllib.request.Request(sys.argv[1], headers={"Host": "run-page.team.svc"})
if sys.argv[2]: request.add_header("Authorization", "Basic " + base64.b64encode(sys.argv[2].encode()).decode())
try: print(urllib.request.urlopen(request, timeout=20).status)
except urllib.error.HTTPError as e: print(e.code, e.headers.get("WWW-Authenticate"))' "$url$1" "$2"
    }
    check "its health is its own, though the run has failed" test "$(ask /healthz "")" = 200
    check "a browser is asked for the password" test "$(ask / "")" = '401 Basic realm="drover"'
    check "a wrong one" test "$(ask / "me:a-password-of-26-letters..")" = '401 Basic realm="drover"'
    check "the right one" test "$(ask / "me:a-password-of-27-letters...")" = 200
    check "nothing is written beside the run" test "$(ls runs/run)" = status.json
    kill $pid && wait_end $pid
    check "TERM ends it: $?" [ $? = 0 ]
fi
for options in training.http=8081 training.http=127.0.0.2:8081 training.http=0.0.0.0:0 "training.http=0.0.0.0:8081 --min-nodes 1"; do # shellcheck disable=SC2086
    of pytorchjob --set $options
    check "no probe with $options" bash -c '! grep -q livenessProbe "$1"' x places/$n_places/pytorchjob.yaml
done

# --- refused: one line, and nothing is written
refused() { # TEXT OPTION...
    local text=$1
    shift
    expect 2 "$text" "$drover" launch pytorchjob run.yaml --instance cpu "${pods[@]}" "$@" --out refused
    check "one line, and nothing is written: $*" test "$(wc -l <out)" = 1 -a ! -e refused
}
refused '--env: "1A=b", expected NAME=VALUE' --env 1A=b
refused '--env: "A", expected NAME=VALUE' --env A
refused '--env: "A" is given twice' --env A=1 --env A=2
refused '--secret-env: "A" is given by --env, too' --env A=1 --secret-env A=b:c
refused '--secret-env: "A=b", expected NAME=SECRET:KEY' --secret-env A=b
refused '--secret-env: "A=B_c:d", expected NAME=SECRET:KEY' --secret-env A=B_c:d
refused '--label: "team=a b", expected KEY=VALUE' --label "team=a b"
refused 'and no label of drover or an operator' --label app.kubernetes.io/instance=x
refused '--annotation: "a b=c", expected KEY=VALUE' --annotation "a b=c"
refused '--toleration: "a:Never", expected KEY[=VALUE][:EFFECT]' --toleration a:Never
refused '--node-selector: "zone", expected KEY=VALUE' --node-selector zone
refused '--image-pull-secret: "A", expected the name of a Secret' --image-pull-secret A
refused '--priority-class: "a b", expected the name of a PriorityClass' --priority-class "a b"
refused '--service-account: "-a", expected the name of a ServiceAccount' --service-account=-a
refused '--topology: "a b", expected a label of nodes' --topology "a b"
refused_by() { # KIND TEXT OPTION...
    expect 2 "$2" "$drover" launch "$1" run.yaml --instance cpu "${pods[@]}" "${@:3}" --out refused
    check "nothing is written: $*" test ! -e refused
}
refused_by volcano '--topology: "rack", expected a number from 1 to 1000' --topology rack
refused_by ray '--topology: "a/b", expected a number from 1 to 1000' --topology a/b --gang
refused_by ray '"run" is the name of the job, too' --cluster run
refused_by ray "--gang is for a cluster that starts with the job" --cluster c --gang
refused_by ray "--queue is for a job with a cluster of its own" --cluster c --queue q
refused_by ray "--topology is for the pods of a new cluster" --cluster c --topology a/b
refused_by ray "--secret-env is for the pods of a new cluster" --cluster c --secret-env A=b:c
refused_by ray "--job compile has one pod and no run, expected no --cluster" --cluster c --job compile
refused_by pytorchjob "--job compile has one pod and no run, expected no --page" --page --job compile
expect 2 "--page is an option of launch" "$drover" launch slurm run.yaml --instance cpu --page
refused_by pytorchjob "--gang is an option of launch ray" --gang
refused_by mpi-operator "--cluster is an option of launch ray" --cluster c
expect 2 "--env is an option of launch trainjob" "$drover" launch slurm run.yaml --instance cpu --env A=b
finish
