#!/bin/bash
# Tasks of drover launch skypilot, read by SkyPilot itself: for 1, 16 and 128 machines of four types. SkyPilot is
# looked for where tools/fetch_launchers.sh puts it; without it the test is skipped. Its list of AWS's
# machines, which it would download, is a short one here. usage: launch_sky.sh DROVER
. "$(dirname "$0")"/story.bash
sky_python=${DROVER_LAUNCHERS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/drover/launchers}/sky/bin/python3
if ! "$sky_python" -c 'import sky' 2>/dev/null; then echo "skipped: no skypilot (tools/fetch_launchers.sh sky)"; exit 77; fi
export HOME=$dir SKYPILOT_DISABLE_USAGE_COLLECTION=1
mkdir -p .sky/catalogs/v8/aws
{
    echo InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone,Arch
    for type in trn1.32xlarge,Trainium,16.0,128.0,512.0 trn2.48xlarge,Trainium2,16.0,192.0,2048.0 p5.48xlarge,H100,8.0,192.0,2048.0; do
        echo "$type,,98.32,40.0,us-east-1,us-east-1a,x86_64"
    done
} >.sky/catalogs/v8/aws/vms.csv
cat >run.yaml <<'YAML'
model: {preset: tiny}
data: {train: data/set, sequence_length: 64}
training: {steps: 10, global_batch_size: 16384, micro_batch_size: 1}
YAML
for type in trn1.32xlarge trn2.48xlarge p5.48xlarge cpu; do
    sets=()
    [ $type = cpu ] || sets=(--set backend=pjrt --set pjrt.plugin=neuron)
    for nodes in 1 16 128; do
        expect 0 "skypilot.yaml" "$drover" launch skypilot run.yaml --nodes $nodes --instance $type --image r/d:1 "${sets[@]}" \
            --set $'run_dir="a\'b $HOME #x"' --out "$type/$nodes"
    done
done
expect 0 "compile.yaml" "$drover" launch skypilot run.yaml --job compile --instance cpu --set backend=pjrt --set pjrt.plugin=cpu --out compile
expect 0 "data.yaml" "$drover" launch skypilot --job data --instance cpu --out data -- data build --input text --out x
"$sky_python" - */*/skypilot.yaml compile/compile.yaml data/data.yaml >out 2>&1 <<'PY' && ok || bad "SkyPilot reads them" out
import sys, sky
for path in sys.argv[1:]:
    task = sky.Task.from_yaml(path)
    parts = path.split("/")
    nodes = int(parts[1]) if len(parts) == 3 else 1
    (resources,) = task.resources
    assert task.num_nodes == nodes and task.name, path
    if parts[0].startswith(("trn", "p5")):
        assert resources.instance_type == parts[0] and "AWS" in str(resources.cloud), (path, resources)
    assert resources.job_recovery["recover_on_exit_codes"] == [75], (path, resources.job_recovery)
    assert "/shared" not in task.run, path # there is no volume
    if nodes > 1:
        assert "$SKYPILOT_NODE_RANK" in task.run and "$HOME #x" in task.run, path
print(len(sys.argv) - 1, "tasks")
PY
says "14 tasks"
finish
