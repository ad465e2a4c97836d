#!/bin/bash
# drover plan --elastic: a line for each number of nodes down to one, whose settings make a config of so many ranks that plan
# takes, with the accumulation groups of the whole job where it says "same"; wrong numbers are refused. usage: plan_elastic.sh DROVER
. "$(dirname "$0")"/story.bash
cat >run.yaml <<'YAML'
model: {preset: tiny, num_hidden_layers: 3}
data: {sequence_length: 64}
training: {global_batch_size: 8, micro_batch_size: 1, precision: bf16}
parallel: {accumulation_groups: 4}
YAML
elastic() { "$drover" plan run.yaml --elastic "$@"; }
expect 0 "data 4" elastic --nodes 4
check "a line for each number of nodes" [ "$(awk 'NR > 1 { print $1 }' out | xargs)" = "4 3 2 1" ]
check "all have the same bits" [ "$(grep -c ' same ' out)" = 4 ]
expect 0 "data 4, micro-batch 1, zero 3; the same bits" elastic --nodes 4 --set parallel.zero=3 --set parallel.zero_group=2
check "groups of ranks: all have the same bits" [ "$(grep -c ' same ' out)" = 4 ]
expect 0 "data 4, micro-batch 1, zero 1; the same bits" elastic --nodes 4 --set parallel.zero=auto
check "a level that memory chooses: all have the same bits" [ "$(grep -c ' same ' out)" = 4 ]
expect 0 "pipeline 3" elastic --nodes 4 --set parallel.tensor=2
expect 0 '"nodes": 8' elastic --nodes 8 --ranks-per-node 2 --json --set parallel.accumulation_groups=16 --set training.global_batch_size=16
expect 2 "--nodes 16, of 1 rank each: run.yaml:3: key \"training.global_batch_size\" is 8" elastic --nodes 16
expect 2 "--nodes" elastic --nodes 0
expect 2 "--nodes" "$drover" plan run.yaml --nodes 4

# taken N SETTINGS: plan takes each row's settings, which multiply to its ranks; accumulation groups stay where bits do
rows() { python3 -c '
import json, sys
for row in json.load(open("rows")):
    print(row["ranks"], row.get("same_bits"), *row.get("settings", []))'; }
for groups in 4 auto; do
    elastic --nodes 4 --json --set parallel.accumulation_groups=$groups --set parallel.tensor=2 >rows 2>err
    n=0
    while read -r ranks same sets; do
        n=$((n + 1))
        [ -n "$sets" ] || continue
        options=()
        product=1
        for set in $sets; do
            options+=(--set "$set")
            case $set in parallel.tensor=* | parallel.pipeline=* | parallel.context=* | parallel.data=*) product=$((product * ${set#*=})) ;; esac
        done
        check "accumulation groups $groups: the axes of $ranks ranks" [ $product = "$ranks" ]
        [ "$groups$same" != 4True ] || check "accumulation groups 4 stay" grep -q "parallel.accumulation_groups=4" <<<"$sets"
        expect 0 "" "$drover" plan run.yaml --ranks "$ranks" "${options[@]}"
    done < <(rows)
    check "accumulation groups $groups: four rows" [ $n = 4 ]
done

expect 2 "keeps no programs" "$drover" compile run.yaml --elastic --nodes 2
finish
