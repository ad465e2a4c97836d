#!/bin/bash
# Finds tests that depend on luck: repeat_tests.sh SELECTION N [BUSY] runs tests N times beside BUSY busy loops (6). SELECTION is `gate` (all
# that `make test` runs), another label of ctest, or a regular expression of names. With a label, only the tests that also have the label
# `timed` run more than twice (tests/CMakeLists.txt says which); the others do the same in every run.
# Each failure is a line that names its log; the exit status is then 1. After an interruption the same call continues with the interrupted
# round, as long as the program is the same. BUILD: the build folder (build); the logs are in BUILD/repeat.
if ! [[ $# -ge 2 && $# -le 3 && $2 =~ ^[1-9][0-9]*$ && ${3:-6} =~ ^[0-9]+$ ]]; then
    echo "usage: $0 SELECTION N [BUSY]" >&2
    exit 2
fi
# Started with signals ignored (nohup, the background of a shell) or blocked, it could not be stopped, nor could the tests.
if [ -z "$REPEAT_TESTS_STARTED" ]; then exec env --default-signal REPEAT_TESTS_STARTED=1 "$0" "$@"; fi
unset REPEAT_TESTS_STARTED
cd "$(dirname "$0")/.." || exit 2
selection=$1 runs=$2 busy=${3:-6} build=${BUILD:-build} self=$$
all=(-R "$selection") timed=(-R "$selection")
[ "${selection,,}" != gate ] || selection="quick|gate"
if [ "$selection" = "quick|gate" ] || ctest --test-dir "$build" --print-labels | grep -qxF "  $selection"; then
    all=(-L "^($selection)\$") timed=(-L "^($selection)\$" -L '^timed$')
fi
if ctest --test-dir "$build" "${all[@]}" -N | grep -qx "Total Tests: 0"; then
    echo "no test of \"$build\" has the label or the name \"$selection\"" >&2
    exit 2
fi

# What is there of an earlier call with these words: a file `done.N` for each round that has ended, with its lines.
folder=$build/repeat/$(printf '%s' "$1-$runs-$busy" | tr -c 'A-Za-z0-9_-' _)
program=$(cat "$build"/drover "$build"/tests/CTestTestfile.cmake | sha256sum)
if [ -e "$folder/done.$runs" ] || [ "$(cat "$folder/program" 2>/dev/null)" != "$program" ]; then rm -rf "$folder"; fi
mkdir -p "$folder" && echo "$program" >"$folder/program"

# Each loop looks whether this script is still there: so it ends with it, however that ends.
trap 'kill -KILL $loops 2>/dev/null; kill -TERM $tests 2>/dev/null' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
loops="" tests=""
for ((i = 0; i < busy; i++)); do
    while kill -0 $self 2>/dev/null; do for ((k = 0; k < 100000; k++)); do :; done; done &
    loops+=" $!"
    disown # its end is nothing to tell of
done

for ((run = 1; run <= runs; run++)); do
    log=$folder/round-$run.log begin=$SECONDS
    if [ ! -e "$folder/done.$run" ]; then
        which=("${timed[@]}")
        [ $run -gt 2 ] || which=("${all[@]}")
        # Beside this script, so that a signal is heeded at once; that it ignores some as a job of the background is put right.
        env --default-signal ctest --test-dir "$build" "${which[@]}" -j "${TEST_JOBS:-$((2 * $(nproc) + 2))}" --output-on-failure >"$log" 2>&1 &
        tests=$!
        wait $tests
        code=$?
        tests=
        sed -nE "s/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .*\*\*\*(Failed|Timeout|Exception[^ ]*|Not Run) *([0-9.]* sec)?.*/round $run of $runs: \1 failed (\2 \3): ${log//\//\\/}/p" "$log" >"$folder/ended"
        [ $code = 0 ] || [ -s "$folder/ended" ] || echo "round $run of $runs: ctest ended with $code: $log" >"$folder/ended"
        [ -s "$folder/ended" ] || rm "$log"
        mv "$folder/ended" "$folder/done.$run"
        echo "round $run of $runs: $((SECONDS - begin)) s"
    fi
    cat "$folder/done.$run"
done
failures=$(cat "$folder"/done.* | wc -l)
echo "$1: $runs rounds beside $busy busy loops, $failures failures"
[ "$failures" = 0 ]
