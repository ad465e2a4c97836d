# Sourced after story.bash: at_event.c is built, which pauses or kills a program of the test at an event, that no clock has to find.
# "${preload[@]}" AT_EVENT="pause|kill before|half|after N PATTERN" COMMAND...
if ! cc -shared -fPIC -o at_event.so "$(dirname "${BASH_SOURCE[0]}")"/at_event.c -ldl 2>cc.txt; then
    echo "skipped: no C compiler here: $(head -n 1 cc.txt)"
    exit 77
fi
preload=(env ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0" LD_PRELOAD="$dir/at_event.so")
is_paused() { grep -q '^State:.*T (stopped)' "/proc/$pid/status"; } # the program with the number $pid
