#!/bin/bash
# The page of a run in Chromium without a screen: it is drawn, its curve moves, nothing that it does breaks its policy or
# asks another origin, and its text is there without JavaScript; see browser.py. usage: browser.sh DROVER [PICTURE.png]
tests=$(realpath "$(dirname "$0")")
picture=${2:+$(realpath "$2")}
. "$tests"/story.bash
if ! command -v chromium >/dev/null; then
    echo "skipped: no chromium (Debian: apt-get install chromium)"
    exit 77
fi
make_data
expect 0 "" python3 -B "$tests"/browser.py "$drover" $picture
finish
