#!/bin/bash
# Debian's Prometheus scrapes a run, and its promtool reads what the page answers; the rules of examples/launch/prometheus
# fire when they should, and are the same for the operator. usage: prometheus.sh DROVER; DROVER_SCRAPES: how many scrapes, one a
# second, instead of 5.
tests=$(realpath "$(dirname "$0")")
examples=$tests/../examples/launch/prometheus
. "$tests"/story.bash
if ! command -v promtool >/dev/null || ! command -v prometheus >/dev/null; then
    echo "skipped: no prometheus and promtool (Debian: apt-get install prometheus)"
    exit 77
fi
sed -n '/^groups:/,$s/^/  /p' "$examples"/rules.yml >rules
sed -n '/^spec:/,$p' "$examples"/prometheus-rule.yaml | tail -n +2 >operator
check "prometheus-rule.yaml has the rules of rules.yml" cmp rules operator
for shared in "$tests"/../../shared "$tests"/../../../shared; do
    [ ! -x "$shared"/tools/validate-manifests ] ||
        expect 0 "" "$shared"/tools/validate-manifests -q "$examples"/pod-monitor.yaml "$examples"/prometheus-rule.yaml
done
cp "$examples"/rules.yml "$tests"/golden/prometheus/rules_test.yml .
expect 0 "5 rules found" promtool check rules rules.yml
expect 0 "SUCCESS" promtool test rules rules_test.yml

# --- a run, found as file-sd.sh finds it
make_data
printf '%s\n' "a token for the metrics" | tr ' ' - >metrics.token
mkdir -p "runs/without a page"
"$drover" train run.yaml --set training.steps=1000000 --set run_dir="runs/the run" --set training.http=0 \
    --set training.http_ranks=true --set training.http_metrics_token_file=metrics.token --set training.log_every=1000 2>run.out &
run=$!
wait_for test -s "runs/the run/http.json"
expect 0 "" "$examples"/file-sd.sh runs targets.json
expect 0 '"labels": {"run": "the run"}' cat targets.json
page=$(sed -n 's/.*"targets": \["\([^"]*\)"\].*/\1/p' targets.json)
sed -e "s|/shared/prometheus/|$dir/|; s|drover-targets.json|targets.json|; s|drover.token|metrics.token|; s|15s|1s|" \
    "$examples"/prometheus.yml >prometheus.yml
expect 0 "is valid" promtool check config prometheus.yml
prometheus --log.level=debug --config.file=prometheus.yml --storage.tsdb.path=tsdb --web.listen-address=$address:0 >prometheus.log 2>&1 &
server=$!
learn_port prometheus.log "Listening on.*address="
get() { python3 -c 'import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(u.Request(sys.argv[1],
    headers={"Authorization": "Bearer " + open("metrics.token").read().strip()})).read())' "$1"; }
# ask QUERY: its first value; nothing where there is none yet
ask() { get "http://$address:$port/api/v1/query?query=$1" 2>/dev/null | sed -n 's/.*"value":\[[^,]*,"\([^"]*\)".*/\1/p'; }
at_least() { [ "$(ask "$1" | cut -d. -f1)" -ge "$2" ] 2>/dev/null; }
wait_for at_least 'count_over_time(drover_step%5B5m%5D)' "${DROVER_SCRAPES:-5}"
wait_for at_least 'drover_step_seconds_count' 5
# Prometheus waits for an answer as long as its interval, which is one second here: a busy machine may take longer.
grep "Scrape failed" prometheus.log | grep -v "context deadline exceeded" >out
check "each scrape went well" [ ! -s out ]
check "the run has its name" [ "$(ask 'count(drover_loss%7Brun=%22the+run%22%7D)')" = 1 ]
check "ranks are told" [ "$(ask 'count(drover_rank_wait_seconds%7Brank=%220%22%7D)')" = 1 ]
check "rules are evaluated" [ "$(ask 'count(prometheus_rule_group_rules)')" != 0 ]
get "http://$page/metrics" >metrics
expect 0 "" promtool check metrics <metrics
check "promtool says nothing" [ ! -s out ]
kill -TERM $server $run
wait_end $run
check "the run has ended as it was asked to" [ $? = 3 ]
wait_end $server
grep -E 'level=(warn|error)' prometheus.log | grep -v "SIGTERM" >out
check "Prometheus warns of nothing" [ ! -s out ]
finish
