#!/bin/bash
# Whether tests depend on luck: repeat_tests.sh SELECTION N [BUSY] runs a label of ctest (quick, gate), or the tests whose names
# match a regular expression, N times beside BUSY busy loops (6). Prints what each failure said, and at last runs and failures;
# exit status 1 where a run failed. BUILD: the build folder (build).
if ! [[ $# -ge 2 && $# -le 3 && $2 =~ ^[1-9][0-9]*$ && ${3:-6} =~ ^[0-9]+$ ]]; then
    echo "usage: $0 SELECTION N [BUSY]" >&2
    exit 2
fi
# Started with signals ignored (nohup, the background of a shell) or blocked, it could not be stopped, nor could the tests.
if [ -z "$REPEAT_TESTS_STARTED" ]; then exec env --default-signal REPEAT_TESTS_STARTED=1 "$0" "$@"; fi
unset REPEAT_TESTS_STARTED
cd "$(dirname "$0")/.." || exit 2
selection=$1 runs=$2 busy=${3:-6} build=${BUILD:-build} self=$$
by=-R
ctest --test-dir "$build" --print-labels | grep -qxF "  $selection" && by=-L
if ctest --test-dir "$build" $by "$selection" -N | grep -qx "Total Tests: 0"; then
    echo "no test of \"$build\" has the label or the name \"$selection\"" >&2
    exit 2
fi

# Each loop looks whether this script is still there: so it ends with it, however that ends.
output=$(mktemp)
trap 'kill -KILL $loops 2>/dev/null; kill -TERM $tests 2>/dev/null; rm -f "$output"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
loops="" tests=""
for ((i = 0; i < busy; i++)); do
    while kill -0 $self 2>/dev/null; do for ((k = 0; k < 100000; k++)); do :; done; done &
    loops+=" $!"
    disown # its end is nothing to tell of
done

failures=0
for ((run = 1; run <= runs; run++)); do
    # Beside this script, so that a signal is heeded at once; that it ignores some as a job of the background is put right.
    env --default-signal ctest --test-dir "$build" $by "$selection" -j "$(nproc)" --output-on-failure >"$output" 2>&1 &
    tests=$!
    if ! wait $tests; then
        failures=$((failures + 1))
        echo "--- run $run of $runs failed:"
        cat "$output"
    fi
    tests=
done
echo "$selection: $runs runs beside $busy busy loops, $failures failed"
[ $failures = 0 ]
