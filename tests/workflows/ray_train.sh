#!/bin/bash
# docs/workflows/ray-train.md in small: the arguments of ray_train_llama2.py, a folder of texts, two nodes as Ray starts them, one of
# which is lost, the same job again, a published model in f32 and as GGUF. usage: ray_train.sh DROVER
. "$(dirname "$0")"/workflow.bash
make_tokenizer tokenizer
make_config_json config.json
cp -r "$tests"/golden/arrow/saved_text wikicorpus

expect 0 "63 documents" "$drover" data build --input wikicorpus --tokenizer tokenizer --out wikicorpus_llama2_7B_4k --append-eod
expect 2 "give --ranks N" "$drover" config --from args -- python3 ray_train_llama2.py --model_path config.json --seq_len 16
translate --from args --ranks 4 --data wikicorpus_llama2_7B_4k --set tokenizer=tokenizer --set run_dir=runs/llama2-7b --set checkpoint.every=5 \
    --set training.log_every=1 -- python3 ray_train_llama2.py --model_path config.json --data_dir wikicorpus_llama2_7B_tokenized_4k \
    --tensor_parallel_size 2 --seq_len 16 --grad_accum_usteps 2
has steps 10000
has tensor 2
has global_batch_size 4
has lr 3e-4
has warmup_like transformers
expect 0 "fits          yes" "$drover" plan run.yaml --ranks 4

# What ray_nodes.py sets on each node.
start() { # SETTING...: in the background; ids in pids
    local i port=0 sets=() # 0: node 0 takes a port that is free and says it
    for set in "$@"; do sets+=(--set "$set"); done
    pids=()
    : >job-0.out # the port of a job before is not this one's
    for i in 0 1; do
        DROVER_NODE_RANK=$i DROVER_NODES=2 DROVER_MASTER=$address:$port DROVER_RANKS_PER_NODE=2 \
            timeout -s KILL $LIMIT "$drover" launch node run.yaml --expect-ranks 4 "${sets[@]}" >job-$i.out 2>&1 &
        pids+=($!)
        [ $i = 1 ] || learn_port job-0.out
    done
}
job() {
    start "$@"
    wait "${pids[1]}"
    wait "${pids[0]}"
}
start
begun runs/llama2-7b "${pids[0]}"
kill -KILL "$(pgrep -P "${pids[1]}")" # the node's process, and with it the pod
wait_end "${pids[1]}"
ended "a node is lost" 75 "${pids[0]}"
like_unbroken runs/llama2-7b job

expect 0 "proved" "$drover" ckpt export runs/llama2-7b --out published --dtype f32
writes published
expect 0 "proved" "$drover" ckpt export runs/llama2-7b --gguf llama2.gguf
finish
