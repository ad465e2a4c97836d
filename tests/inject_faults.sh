#!/bin/bash
# What fails outside of the program, in short runs of the verbs: calls of the system (strace), reads and writes that are cut short
# (short_calls.c); see inject_faults.py. DROVER_FAULTS: how many of them (default 40), drawn by DROVER_SEED. usage: inject_faults.sh DROVER
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
if ! strace -f --seccomp-bpf -qq -o /dev/null -e trace=none true 2>why; then
    echo "skipped: strace does not work here: $(tail -n 1 why)"
    exit 77
fi
if ! cc -shared -fPIC -o short_calls.so "$tests"/short_calls.c -ldl 2>why; then
    echo "skipped: no C compiler here: $(head -n 1 why)"
    exit 77
fi
export SHORT_CALLS_LIBRARY=$dir/short_calls.so ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0"
python3 "$tests"/bad_server.py >server.log 2>server.err &
server=$!
trap 'kill $server; rm -rf "$dir"' EXIT
wait_for test -s server.log
HF_ENDPOINT=http://127.0.0.1:$(head -n 1 server.log)
export HF_ENDPOINT

mkdir template && cd template || exit 1
make_data
sed -i 's/steps: 40/steps: 2, hash_every: 1/; s/every: 3/every: 1/' run.yaml
expect 0 "step 2" "$drover" train run.yaml --set run_dir=run
make_adapter run/checkpoints/step-000002
mv tuned whole && mv whole/checkpoints/step-000001 tuned && rm -r whole
expect 0 "model.gguf" "$drover" ckpt export run --gguf model.gguf --no-verify
make_chat
rm data/chat*
echo '[{"role": "user", "content": "a fox"}]' >messages.json
rm -f out
cd ..
check "what was drawn" python3 -B "$tests"/inject_faults.py "$drover" template --draw "${DROVER_FAULTS:-40}" --seed "${DROVER_SEED:-1}" "${@:2}"
finish
