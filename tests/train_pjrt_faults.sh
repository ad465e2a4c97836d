#!/bin/bash
# backend: pjrt on a device that fails: each kind of failure at each call that gives it work (bench/faulty_plugin.c). The run ends
# within its limit, in one line that names step, program and what the plugin said, with 75 where another try may succeed. The last
# finished step is saved where its weights are still there, and what was reported are the losses of a run that nothing ended.
here=$(cd "$(dirname "$0")"/.. && pwd)
. "$(dirname "$0")"/pjrt.bash
make_plugin() { # FILE FAULT_FILE
    cc -std=c17 -D_GNU_SOURCE -shared -fPIC -I "$here/src" -DFAULT_PLUGIN="\"$(ls "$folder"/cpu/*.so | head -1)\"" \
        -DFAULT_FILE="\"$dir/$2\"" -o "$1" "$here/bench/faulty_plugin.c" -ldl
}
make_plugin faulty.so fault || { echo "skipped: no cc"; exit 77; }
make_data
train() { "$drover" train run.yaml --set backend=pjrt --set pjrt.plugin=./faulty.so --set schedule.type=constant --set training.steps=6 --set "$@"; }
two="pjrt.devices=2 --set training.micro_batch_size=1"
expect 0 "step 6" train run_dir=one --set checkpoint.every=0
expect 0 "step 6" train run_dir=two --set checkpoint.every=0 --set $two
bus="the device fell off the bus (code 13)" silent="the device has not answered for 1 s (pjrt.give_up_s)"
whole='drover: step 4: program "whole_step": '

# what fails|status|what is said|step that is saved, 0: none|what else is set
rows=(
    "LoadedExecutable_Execute error 4|75|$whole* LoadedExecutable_Execute: $bus; step 3 is saved|3|"
    "LoadedExecutable_Execute memory 4|1|$whole* out of memory: no 7 bytes are left; * step 3 is saved|3|"
    "LoadedExecutable_Execute await 4|75|$whole* Event_Await: $bus|0|"
    "LoadedExecutable_Execute never 4|75|$whole* $silent|0|"
    "LoadedExecutable_Execute lost 4|75|$whole\"loss\": * $bus|0|"
    "LoadedExecutable_Execute await 4|75|$whole* Event_Await: $bus; step 2 is saved|2|checkpoint.every=2"
    "Buffer_ToHostBuffer error 10|75|$whole\"loss\": * Buffer_ToHostBuffer: $bus|0|"
    "Buffer_ToHostBuffer await 10|75|$whole\"loss\": * Event_Await: $bus|0|"
    "Buffer_ToHostBuffer never 10|75|$whole\"loss\": * $silent|0|"
    "Client_BufferFromHostBuffer error 63|75|drover: step 3: program \"whole_step\": * Client_BufferFromHostBuffer: $bus; step 2 is saved|2|"
    "Client_BufferFromHostBuffer await 63|75|drover: step 3: program \"whole_step\": * Event_Await: $bus; step 2 is saved|2|"
    "Client_Create error|1|Client_Create: $bus|0|"
    "LoadedExecutable_Execute error 19|75|drover: step 4: program \"step\": * $bus; step 3 is saved|3|$two"
    "LoadedExecutable_Execute lost 19|75|drover: step 4: program \"step\": \"loss\": * $bus|0|$two"
    "LoadedExecutable_Execute stuck 19|75|drover: step 4: program \"step\": * Event_Await: $bus|0|$two"
)
for row in "${rows[@]}"; do
    IFS='|' read -r fault status said saved set <<<"$row"
    whole_run=one
    [ "$set" != "$two" ] || whole_run=two
    rm -rf failed && echo "$fault" >fault
    expect "$status" "" timeout -s KILL 300 "$drover" train run.yaml --set backend=pjrt --set pjrt.plugin=./faulty.so --set schedule.type=constant \
        --set training.steps=6 --set run_dir=failed --set pjrt.give_up_s=1 --set checkpoint.every=0 ${set:+--set $set}
    check "$fault: no failure came about" [ ! -e fault ]
    last=$(tail -n 1 out)
    case $last in *$said*) ok ;; *) bad "$fault: not said: $said" out ;; esac
    check "$fault: said more than once" [ "$(grep -c 'plugin "faulty.so": ' out)" = 1 ]
    check "$fault: step $(last_saved failed) is saved" [ "$(last_saved failed)" = "$saved" ]
    [ -e failed/metrics.jsonl ] || continue
    check "$fault: other losses" cmp -s <(losses failed) <(losses $whole_run | head -n "$(losses failed | wc -l)")
    check "$fault: a step that failed is reported" [ "$(losses failed | wc -l)" -lt 4 ]
done

# After a failure the same command goes on, to the same bits.
sums one 000006 >want
echo "LoadedExecutable_Execute error 4" >fault
expect 75 "step 3 is saved" train run_dir=again
expect 0 "resumed from again/checkpoints/step-000003" train run_dir=again
check "resumed after a failure: other bits" cmp -s <(sums again 000006) want

# Two processes of a pipeline, of which one alone hears of the failure: its line, and the status that it has. The other one's device
# waits for ever, as that of a group does where one of them has failed. No limit but that of the failure ends them (300 s, 1,800 s).
if command -v mpirun >/dev/null && [ -e "$(dirname "$drover")/drover_mpi.so" ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    make_plugin faulty-1.so fault-1
    printf '#!/bin/sh\nexport DROVER_PJRT_PLUGIN=./faulty.so\n[ "$OMPI_COMM_WORLD_RANK" = 0 ] || DROVER_PJRT_PLUGIN=./faulty-1.so\nexec "$@"\n' >own_plugin
    chmod +x own_plugin
    staged() {
        timeout -k 5 60 mpirun --oversubscribe -n 2 ./own_plugin "$drover" train run.yaml --set backend=pjrt --set parallel.pipeline=2 \
            --set schedule.type=constant --set training.steps=6 --set "$@"
    }
    for fault in "error never" "stuck never" "never stuck"; do
        rm -rf staged && echo "LoadedExecutable_Execute ${fault% *} 40" >fault
        echo "LoadedExecutable_Execute ${fault#* } 40" >fault-1
        expect 75 "$bus" staged run_dir=staged --set checkpoint.every=2
        check "$fault: no failure came about" [ ! -e fault -o ! -e fault-1 ]
        check "$fault: said more than once" [ "$(grep -c 'plugin "faulty.*": .*bus' out)" = 1 ]
        check "$fault: step $(last_saved staged) is saved" [ "$(last_saved staged)" -gt 0 ]
        rm -f fault fault-1
    done
    expect 0 "resumed from staged/checkpoints/step-00000" staged run_dir=staged
fi

# Other programs than those of steps.
echo "LoadedExecutable_Execute error" >fault
expect 75 'program "score": plugin "faulty.so": LoadedExecutable_Execute: '"$bus" "$drover" eval one/checkpoints/step-000006 --data data/set \
    --set backend=pjrt --set pjrt.plugin=./faulty.so
finish
