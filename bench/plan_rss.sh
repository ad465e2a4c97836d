#!/bin/bash
# What drover plan prints against what a step really holds: bench/plan_rss.sh build/drover
# The difference must stay within the process constant that the plan states.
drover=$1
printf '%-12s %-10s %12s %12s %10s %s\n' model recompute planned peak_rss beside "allowed beside"
for model in llama-15m:512 llama-135m:1024; do
    for mode in none selective full; do
        sets=(--set "model.preset=${model%:*}" --set "data.sequence_length=${model#*:}" --set "training.recompute=$mode" --set training.global_batch_size=2)
        plan=$("$drover" plan --json "${sets[@]}")
        total=$(sed 's/.*"total": \([0-9]*\).*/\1/' <<<"$plan")
        process=$(sed 's/.*"process": \([0-9]*\).*/\1/' <<<"$plan")
        rss=$("$drover" bench step --json --repeats 1 "${sets[@]}" 2>/dev/null | sed 's/.*"peak_rss": \([0-9]*\).*/\1/')
        printf '%-12s %-10s %12d %12d %10d %d\n' "${model%:*}" $mode "$total" "$rss" $((rss - total)) "$process"
    done
done
