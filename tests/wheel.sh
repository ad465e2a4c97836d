#!/bin/bash
# The wheel of tools/make_wheel.sh: its names, tag and hashes hold, and in an empty environment pip installs a program that runs,
# trains and finds its libraries, without Python and without network. Other systems, other programs that look at it, and whether the
# same files make the same bytes: packaging/check_packages.sh. Needs patchelf, python3-wheel, python3-venv. usage: wheel.sh DROVER
tree=$(realpath "$(dirname "$0")/..")
. "$(dirname "$0")"/story.bash
build=$(dirname "$drover")
pip=(/usr/share/python-wheels/pip-*.whl) # as ensurepip has it on Debian, without the seconds that it takes
command -v patchelf >/dev/null && /usr/bin/python3 -c "import wheel, venv" 2>/dev/null && [ -e "${pip[0]}" ] || {
    echo "skipped: no patchelf, python3-wheel or python3-venv (make wheel installs them)"; exit 77; }
if ldd "$drover" | grep -q libasan; then echo "skipped: AddressSanitizer's library is in no wheel"; exit 77; fi
mkdir -p "$build/made"
for made in man=drover.1 completion=drover.bash; do # as the target "manual" makes them
    [ "$build/made/${made#*=}" -nt "$drover" ] || expect 0 "" python3 -B "$tree/tools/make_${made%=*}.py" "$drover" "$build/made/${made#*=}"
done
expect 0 "_$(uname -m).whl" "$tree/tools/make_wheel.sh" "$build"
wheel=$(tail -n 1 out)

# --- what it says of itself
check "what RECORD, WHEEL and METADATA say" /usr/bin/python3 - "$wheel" <<'PY' >out 2>&1
import base64, csv, hashlib, re, stat, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
name, version, tag = re.fullmatch(r".*/(drover)-([0-9.]+)-(py3-none-manylinux_2_\d+_\w+)\.whl", sys.argv[1]).groups()
about = f"{name}-{version}.dist-info/"
recorded = {path: (digest, size) for path, digest, size in csv.reader(archive.read(about + "RECORD").decode().splitlines())}
assert recorded.pop(about + "RECORD") == ("", "")
assert set(recorded) == set(archive.namelist()) - {about + "RECORD"}, "a file is not recorded, or not there"
for path, (digest, size) in recorded.items():
    data = archive.read(path)
    assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("="), path
    assert int(size) == len(data), path
said = archive.read(about + "WHEEL").decode()
assert f"\nTag: {tag}\n" in said and "Root-Is-Purelib: false" in said, said
metadata = archive.read(about + "METADATA").decode()
assert f"\nVersion: {version}\n" in metadata and "License-Expression: Apache-2.0" in metadata
licences = re.findall(r"^License-File: (.*)$", metadata, re.M)
assert {"LICENSE", "libraries/libjansson4", "libraries/libutf8proc-dev"} <= set(licences)
assert {about + "licenses/" + file for file in licences} == {f for f in archive.namelist() if "/licenses/" in f}
assert not [f for f in archive.namelist() if f.endswith((".py", ".pyc"))], "there is Python in it"
script = archive.getinfo(f"{name}-{version}.data/scripts/drover")
assert archive.read(script)[:4] == b"\x7fELF" and stat.S_IMODE(script.external_attr >> 16) == 0o755
PY

# --- in an empty environment: without network, and without Python on its path afterwards
check "venv" /usr/bin/python3 -m venv --without-pip venv
expect 0 "Successfully installed drover" venv/bin/python -B "${pip[0]}/pip" --isolated --disable-pip-version-check install --no-index "$wheel"
# The tag is the newest version of the C library that a file asks for.
asked=$(objdump -p venv/bin/drover venv/lib/drover/*.so venv/lib/drover/lib/* | grep -o 'GLIBC_2\.[0-9]*' | cut -d. -f2 | sort -n | tail -n 1)
check "the tag is that of GLIBC_2.$asked" [ "$(sed 's/.*manylinux_2_\([0-9]*\)_.*/\1/' <<<"$wheel")" = "$asked" ]
make_text >text.txt
bare() { env -i HOME="$dir" PATH=/nowhere DROVER_THREADS=2 DROVER_PEAK_FLOPS=1e11 "$@"; }
expect 0 "$("$drover" --version)" bare venv/bin/drover --version
best=1000000 # of ten starts, in microseconds
for _ in 1 2 3 4 5 6 7 8 9 10; do
    begin=${EPOCHREALTIME/./}
    venv/bin/drover --version >/dev/null
    took=$((${EPOCHREALTIME/./} - begin))
    [ $took -ge $best ] || best=$took
done
echo "wheel: $(stat -c %s "$wheel") bytes; drover --version in $((best / 1000)).$(printf %03d $((best % 1000))) ms, the best of ten"
expect 0 "400 tokens" bare venv/bin/drover tokenizer train --input text.txt --vocab-size 400 --out tok
expect 0 "3000 documents" bare venv/bin/drover data build --input text.txt --separator '\n\n' --tokenizer tok --out set --append-eod
cat >run.yaml <<'YAML'
model: {preset: tiny, vocab_size: 400, num_hidden_layers: 2}
tokenizer: tok
data: {train: set, sequence_length: 64}
training: {steps: 3, global_batch_size: 4, micro_batch_size: 2}
YAML
expect 0 "step-000003" bare venv/bin/drover train run.yaml
# A library that is opened, and one that the program is linked with: both are the wheel's.
for library in curl jansson; do
    expect 1 "calling init: $dir/venv/bin/../lib/drover/lib/lib$library" env LD_DEBUG=files venv/bin/drover data get http://127.0.0.1:1/x --out x
done
check "man page and completion" [ -e venv/share/man/man1/drover.1 ] && check "completion" [ -e venv/share/bash-completion/completions/drover ]
expect 0 "Successfully uninstalled drover" venv/bin/python -B "${pip[0]}/pip" --isolated uninstall -y drover
check "nothing of it is left" [ -z "$(find venv -name '*drover*')" ]
finish
