#!/bin/bash
# The tarball of tools/make_bundle.sh, in a root that has the C library and nothing else, without network: the program runs there,
# trains, and finds the libraries that it opens. Needs root, unshare, patchelf. usage: bundle.sh DROVER
tree=$(realpath "$(dirname "$0")/..")
. "$(dirname "$0")"/story.bash
build=$(dirname "$drover")
if ! command -v patchelf >/dev/null || ! command -v dpkg-query >/dev/null; then echo "skipped: no patchelf (make bundle installs it)"; exit 77; fi
if [ "$(id -u)" != 0 ] || ! unshare -nm true 2>/dev/null; then echo "skipped: no root with namespaces"; exit 77; fi
if ldd "$drover" | grep -q libasan; then echo "skipped: AddressSanitizer's library is in no bundle"; exit 77; fi
# What the target "manual" makes, without building the program anew.
expect 0 "" python3 -B "$tree/tools/make_man.py" "$drover" "$build/made/drover.1"
expect 0 "" python3 -B "$tree/tools/make_completion.py" "$drover" "$build/made/drover.bash"
expect 0 "linux-$(uname -m).tar.gz" "$tree/tools/make_bundle.sh" "$build"
bundle=$(tail -n 1 out)
check "its hash" bash -c 'cd "$1" && sha256sum -c --quiet "$2".sha256' x "$build" "$(basename "$bundle")"

# A root with the files of libc6 and libgcc-s1, a Debian without all else.
mkdir -p root/proc root/dev root/tmp root/home
for package in libc6 libgcc-s1; do # of this architecture: others may be installed too (make arm64)
    dpkg-query -L "$package:$(dpkg --print-architecture)" | grep '\.so' | while read -r file; do
        [ -d "$file" ] || { mkdir -p "root$(dirname "$file")" && cp -a "$file" "root$file"; }
    done
done
for folder in lib lib64; do # as on a system whose /lib is /usr/lib
    if [ -d root/$folder ] && [ ! -L root/$folder ]; then mkdir -p root/usr/$folder && cp -an root/$folder/. root/usr/$folder/ && rm -r root/$folder; fi
    [ ! -d root/usr/$folder ] || ln -s usr/$folder root/$folder
done
tar -C root/home -xzf "$bundle"
mv root/home/drover-* root/home/drover
check "every file is as it was" bash -c 'cd root/home/drover && sha256sum -c --quiet SHA256SUMS'
check "every file has a hash" test "$(wc -l <root/home/drover/SHA256SUMS)" = "$(find root/home/drover -type f ! -name SHA256SUMS | wc -l)"
check "licences of the libraries" test -e root/home/drover/share/doc/drover/licences/libjansson4
bare() {
    # shellcheck disable=SC2016 # the inner shell's
    unshare -nm sh -c 'mount -t proc proc root/proc && mount --bind /dev root/dev && exec env -i HOME=/tmp DROVER_THREADS=2 DROVER_PEAK_FLOPS=1e11 /usr/sbin/chroot root "$@"' x "$@"
}
make_text >root/home/text.txt
cat >root/home/run.yaml <<'YAML'
model: {preset: tiny, vocab_size: 400, num_hidden_layers: 2}
tokenizer: /home/tok
data: {train: /home/set, sequence_length: 64}
training: {steps: 3, global_batch_size: 4, micro_batch_size: 2}
run_dir: /home/run
YAML
cp "$tree"/tests/golden/parquet/snappy*.parquet root/home/
in_root=/home/drover/bin/drover
expect 0 "drover $(sed -n 's/.*VERSION \([0-9.]*\) .*/\1/p' "$tree/CMakeLists.txt" | head -n 1)" bare $in_root --version
expect 0 "400 tokens" bare $in_root tokenizer train --input /home/text.txt --vocab-size 400 --out /home/tok
expect 0 "3000 documents" bare $in_root data build --input /home/text.txt --separator '\n\n' --tokenizer /home/tok --out /home/set --append-eod
expect 0 "step-000003" bare $in_root train /home/run.yaml
expect 0 "documents" bare $in_root data build --tokenizer /home/tok --out /home/packed --input "/home/$(basename "$tree"/tests/golden/parquet/snappy*.parquet)"
expect 1 "127.0.0.1" bare $in_root data get http://127.0.0.1:9/x --out /home/x
check "libcurl is there" bash -c '! grep -q "cannot be loaded" out'
rm -rf root/home/drover/lib/drover/lib
bare $in_root --version >out 2>&1 && bad "it runs without its libraries: something else has them" out || ok
finish
