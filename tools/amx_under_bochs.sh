#!/bin/bash
# Runs the AMX kernels by their instructions where no processor has them: in Bochs, which emulates a Sapphire Rapids, under Debian's
# kernel, which grants the tiles' registers and keeps them when threads take turns. Two threads train, whose files must be those of
# the plain C here; then tests; then a kernel that refuses the registers.
# usage: amx_under_bochs.sh BOCHS_SOURCE [TEST...]   (without words all tests of `tests`)
# BOCHS_SOURCE is the folder bochs/ of a checkout of https://github.com/bochs-emu/Bochs at 783b58fd (3.0 and more). It is copied, and
# mended by bochs_amx.patch, which says why. Needs g++, patch, what `make` needs, apt-get of Debian 12 (kernel, boot loader and busybox
# are fetched and unpacked, nothing is installed), 2 GiB of memory. Works in build-bochs/, where the consoles are kept. Boot and a run of
# training take a minute of processor time. No speed can be told from it; bench/results/2026-11-27-amx.md says what has run. Exit
# status 1: a test failed, or other bits.
set -euo pipefail
source=$(realpath -- "${1:?usage: amx_under_bochs.sh BOCHS_SOURCE [TEST...]}")
shift
cd "$(dirname "$0")/.."
tests=${*:-test_tiles test_amx_bits test_micro_batch test_tensor_bits test_gemm}
jobs=${JOBS:-$(nproc)}

# --- programs: drover's, Bochs, and what the guest boots with
make -s configure
# shellcheck disable=SC2086 # targets
cmake --build build -j "$jobs" --target drover $tests
mkdir -p build-bochs
build=$PWD/build
cd build-bochs
if [ ! -x bochs/bochs ]; then
    rm -rf bochs
    cp -r "$source" bochs
    patch -s -d bochs -p1 <../tools/bochs_amx.patch
    (cd bochs && CXXFLAGS="-O2 -fomit-frame-pointer" ./configure --enable-x86-64 --enable-smp --enable-cpu-level=6 --enable-avx \
        --enable-evex --enable-amx --enable-all-optimizations --enable-long-phy-address --disable-logging --disable-docbook \
        --with-nogui && make -j "$jobs" bochs) >bochs.log 2>&1 || { tail bochs.log; exit 1; }
fi
if [ ! -d debian/boot ]; then
    kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p')
    apt-get download -q "$kernel" busybox-static isolinux syslinux-common xorriso libisoburn1 libburn4 libisofs6 libjte2 >debian.log
    for package in ./*.deb; do dpkg -x "$package" debian; done
    rm ./*.deb
fi

# --- here: a tokenizer, a set, and a run by plain C
drover=$build/drover
rm -rf guest && mkdir -p guest/job
awk 'BEGIN { for (i = 0; i < 600; i++) printf "Document %d tells of the fox, the dog and %d lazy hens.\n\n", i, i * i % 97 }' >text.txt
cat >guest/job/run.yaml <<YAML
model: {preset: tiny, vocab_size: 400, num_hidden_layers: 2}
tokenizer: tok
data: {train: set, split: [90, 10, 0], sequence_length: 64}
training: {steps: 4, global_batch_size: 8, micro_batch_size: 2, eval_every: 0, precision: bf16, hash_every: 1}
schedule: {warmup_steps: 1}
checkpoint: {every: 4}
YAML
export DROVER_PEAK_FLOPS=1e11 DROVER_THREADS=2
run_by() { DROVER_GEMM=$1 "$drover" train run.yaml --set run_dir="$2"; }
(
    cd guest/job
    "$drover" tokenizer train --input ../../text.txt --vocab-size 400 --out tok
    "$drover" data build --input ../../text.txt --separator $'\n\n' --tokenizer tok --out set --append-eod
    run_by amx_emulated ../../emulated
    run_by fp32 ../../wide
) >here.log 2>&1 || { tail here.log; exit 1; }

# --- the guest: everything in memory, its console in a file
guest() { mkdir -p "guest$(dirname "$2")" && cp -L "$1" "guest$2"; }
for name in drover $tests; do
    program=$build/tests/$name
    [ -x "$program" ] || program=$build/$name
    guest "$program" "/bin/$name"
    strip -g "guest/bin/$name"
    ldd "$program" | grep -o '/[^ ]*' | while read -r library; do guest "$library" "$library"; done
done
guest debian/bin/busybox /bin/busybox
echo "$tests" >guest/job/tests
guest ../tests/golden/tiles.txt "$(realpath ../tests)/golden/tiles.txt" # where test_tiles looks for it
cat >guest/init <<'INIT'
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /run
/bin/busybox --install -s /bin
export PATH=/bin DROVER_PEAK_FLOPS=1e11 DROVER_THREADS=2 OMP_WAIT_POLICY=passive
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs tmp /tmp
dmesg -n 1
cd /job
echo "kernel $(uname -r), $(nproc) processors, flags $(grep -m 1 -o 'amx[^ ]*' /proc/cpuinfo | xargs)"
try() { # NAME COMMAND...
    name=$1
    shift
    begun=$(cut -d. -f1 /proc/uptime)
    "$@" >/tmp/said 2>&1
    status=$?
    sed "s/^/    /" /tmp/said
    echo "$name: status $status, $(($(cut -d. -f1 /proc/uptime) - begun)) s of the guest"
}
files() { (cd "$1/checkpoints/step-000004" && sha256sum model.safetensors optimizer.safetensors) | sed "s|^|FILE $1 |"; }
by_rule() { drover train run.yaml --set run_dir=by_rule; }
by_name() { DROVER_GEMM=amx drover train run.yaml --set run_dir=by_name; }
if grep -qw refused /proc/cmdline; then
    try refused by_name
    try by_rule by_rule
    try test_tiles test_tiles
else
    try by_rule by_rule
    files by_rule
    try by_name by_name
    files by_name
    for test in $(cat tests); do try $test $test; done
    try doctor env -u DROVER_PEAK_FLOPS drover doctor
fi
echo END
sleep 20 # until the serial line has taken all that
poweroff -f
INIT
chmod +x guest/init
(cd guest && find . | ../debian/bin/busybox cpio -o -H newc) >guest.cpio 2>/dev/null

boot() { # NAME PROCESSORS WORDS_OF_THE_COMMAND_LINE...: NAME.console
    local name=$1 processors=$2
    shift 2
    rm -rf iso "$name".*
    mkdir -p iso
    cp debian/boot/vmlinuz-* iso/linux
    cp guest.cpio debian/usr/lib/ISOLINUX/isolinux.bin debian/usr/lib/syslinux/modules/bios/ldlinux.c32 iso
    printf 'default linux\nlabel linux\nkernel linux\nappend initrd=guest.cpio console=ttyS0 mitigations=off nokaslr panic=0 %s\n' \
        "$*" >iso/isolinux.cfg
    LD_LIBRARY_PATH=debian/usr/lib/x86_64-linux-gnu debian/usr/bin/xorriso -report_about FAILURE -as mkisofs -o "$name.iso" -b isolinux.bin \
        -c boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table iso
    # IA32_MISC_ENABLE with fast strings: without them Linux 6.1 moves fewer than 32 bytes wrongly on a processor with FSRM.
    echo "0x1a0 0 0 1 0 0 0 0" >msrs
    cat >"$name.rc" <<RC
display_library: nogui
romimage: file=bochs/bios/BIOS-bochs-latest
vgaromimage: file=bochs/bios/VGABIOS-lgpl/VGABIOS-lgpl-latest.bin
cpu: model=sapphire_rapids, count=$processors, ips=50000000, cpuid_freq=ips, reset_on_triple_fault=0, msrs=msrs
memory: guest=2048, host=2048
ata0-master: type=cdrom, path=$name.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$name.console
clock: sync=none
log: $name.log
panic: action=fatal
RC
    timeout "${LIMIT:-4h}" bochs/bochs -q -f "$name.rc" >"$name.out" 2>&1 </dev/null || : # turning the power off is an error to it
    grep -q '^END' "$name.console" || { tail "$name.console"; echo "$name: the guest did not come to its end" >&2; exit 1; }
}

failed=0
bad() { echo "FAILED: $*"; failed=1; }
hashes() { (cd "$1/checkpoints/step-000004" && sha256sum model.safetensors optimizer.safetensors); }
boot granted 1
sed -n '/^kernel/,$p' granted.console
# shellcheck disable=SC2086 # names
for name in by_rule by_name $tests doctor; do
    grep -q "^$name: status 0," granted.console || bad "$name"
done
! grep -q 'no AMX here' granted.console || bad "test_tiles leaves the instructions out"
for run in by_rule by_name; do
    [ "$(tr -d '\r' <granted.console | sed -n "s/^FILE $run //p")" = "$(hashes emulated)" ] || bad "$run has other files than plain C"
done
[ "$(hashes emulated)" != "$(hashes wide)" ] || bad "fp32 has the files of the tiles: nothing is told"

boot refused 1 refused clearcpuid=324 # XFD: without it the kernel permits no tiles
sed -n '/^kernel/,$p' refused.console
grep -q '^refused: status 2,' refused.console || bad "a product by tiles that are not permitted is not refused"
for name in by_rule test_tiles; do
    grep -q "^$name: status 0," refused.console || bad "$name, without tiles"
done
[ $failed = 0 ] && echo "equal"
exit $failed
