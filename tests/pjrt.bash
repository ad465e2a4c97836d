# Sourced by the shell tests that run on XLA's CPU plugin instead of story.bash. Without a plugin the test says so and is skipped.
. "$(dirname "${BASH_SOURCE[0]}")"/story.bash
folder=${DROVER_PJRT_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/drover/pjrt}
if ! ls "$folder"/cpu/*.so >/dev/null 2>&1; then
    echo "skipped: no plugin in $folder/cpu (tools/fetch_pjrt.py cpu gets one)"
    exit 77
fi
echo "reads $folder/cpu, outside the tree"
export DROVER_PJRT_DIR=$folder DROVER_PJRT_PLUGIN=cpu DROVER_COMPILE_CACHE=$dir/cache
losses() { sed -n 's/.*"loss": *\([-0-9.e]*\).*/\1/p' "$1/metrics.jsonl"; }
near() { # BOUND A B: as many losses, each within BOUND of the other, which is relative
    paste <(losses "$2") <(losses "$3") | awk -v bound="$1" '
        NF != 2 || ($1 / $2 - 1) ^ 2 > bound ^ 2 { print "loss", NR, $0 >"out"; wrong = 1 } END { exit wrong || NR == 0 }'
}
