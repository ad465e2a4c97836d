# Sourced by every shell test first: `drover` is the path of the program under test, $1 of the test. A test that
# is given no program ends here.
drover=$(realpath -- "${1:-}" 2>/dev/null)
if ! { [ -f "$drover" ] && [ -x "$drover" ]; }; then
    echo "usage: $0 PROGRAM (\"${1:-}\" is none)" >&2
    exit 2
fi

# The peak that mfu and plans are measured against is said instead of measured at every start: that takes longer than
# most runs of the tests.
export DROVER_PEAK_FLOPS=1e11

# AddressSanitizer's address space is beyond any ulimit -v: a program built with it does not start under one.
sanitized() { ! (ulimit -v 4000000; exec "$drover" --version >/dev/null 2>&1); }

