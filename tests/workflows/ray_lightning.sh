#!/bin/bash
# docs/workflows/ray-lightning.md in small: a folder that get_dataset.py has tokenised, the options of run_llama3.1_8b.sh, two
# nodes as Ray starts them, a rank that is killed, the same job again, a published model. usage: ray_lightning.sh DROVER
. "$(dirname "$0")"/workflow.bash
make_tokenizer tokenizer
make_config_json config.json
cp -r "$tests"/golden/arrow/saved_ids fineweb_llama3.1_tokenized

expect 0 "40 documents, 457 tokens" "$drover" data build --input fineweb_llama3.1_tokenized --tokenizer tokenizer --out fineweb
translate --from args --data fineweb --set tokenizer=tokenizer --set run_dir=runs/llama --set checkpoint.every=5 \
    --ranks 4 --set parallel.tensor=2 -- bash run_llama3.1_8b.sh -w 500 -n 1 -l 4e-4 -s 16 -g 8 -m config.json -d fineweb_llama3.1_tokenized
has steps 10000
has warmup_steps 500
has tensor 2
has data 2
expect 0 "fits          yes" "$drover" plan run.yaml --ranks 4

# What ray_nodes.py sets on each node.
start() { # SETTING...: in the background; ids in pids
    local i port=0 sets=() # 0: node 0 takes a port that is free and says it
    for set in "$@"; do sets+=(--set "$set"); done
    pids=()
    : >job-0.out # the port of a job before is not this one's
    for i in 0 1; do
        DROVER_NODE_RANK=$i DROVER_NODES=2 DROVER_MASTER=$address:$port \
            timeout -s KILL $LIMIT "$drover" launch node run.yaml --ranks-per-node 2 --expect-ranks 4 "${sets[@]}" >job-$i.out 2>&1 &
        pids+=($!)
        [ $i = 1 ] || learn_port job-0.out
    done
}
job() {
    local code
    start "$@"
    wait "${pids[1]}"
    wait "${pids[0]}"
    code=$?
    return $code
}
start
begun runs/llama "${pids[0]}"
kill -KILL "$(state pid runs/llama)" # rank 0
ended "a rank is killed" 75 "${pids[@]}"
like_unbroken runs/llama job

expect 0 "proved" "$drover" ckpt export runs/llama --out published
writes published
finish
