# Sourced after story.bash: at_event.c is built, which pauses, kills or interrupts a program of the test, or has a call of it fail, at an event, that no clock has to find.
# "${preload[@]}" AT_EVENT="pause|kill|interrupt|fail before|half|after N PATTERN" COMMAND...
if ! cc -shared -fPIC -o at_event.so "$(dirname "${BASH_SOURCE[0]}")"/at_event.c -ldl 2>cc.txt; then
    echo "skipped: no C compiler here: $(head -n 1 cc.txt)"
    exit 77
fi
preload=(env ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0" LD_PRELOAD="$dir/at_event.so")
is_paused() { grep -q '^State:.*T (stopped)' "/proc/$pid/status"; } # the program with the number $pid
# interrupted_twice RUN COMMAND...: that run, by two key presses when its first step is done; the second one ends it at once
interrupted_twice() {
    local run=$1
    shift
    "${preload[@]}" AT_EVENT="interrupt before 1 write */$run/metrics.jsonl" "$@" >out 2>&1
    code=$?
    check "a second SIGINT exits $code instead of 130" [ $code = 130 ]
}
