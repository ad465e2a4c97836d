#!/bin/sh
# Builds drover for arm64 with Debian's cross compiler, in build-arm64/, runs the tests of its bits under qemu, and makes the .deb
# and the wheel, whose programs train a tokenizer, build a set and train a model there. What is missing is installed, as root on
# Debian: compiler, qemu, and the libraries of that architecture (but Open MPI's, whose headers of two architectures exclude each
# other: there is no MPI module). Exit status 77: they cannot be had.
set -e
cd "$(dirname "$0")/.."
libraries="libc6 libjansson-dev libyaml-dev libxxhash-dev libprotobuf-c-dev libutf8proc-dev libpcre2-dev libzstd-dev
zlib1g-dev liblz4-dev libcmocka-dev libcurl4-openssl-dev libssl-dev libsnappy-dev libncurses-dev libmicrohttpd-dev"
wanted="gcc-aarch64-linux-gnu qemu-user-static dpkg-dev patchelf python3-wheel"
for library in $libraries; do wanted="$wanted $library:arm64"; done
missing=
for package in $wanted; do
    case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
    *" installed") ;;
    *) missing="$missing $package" ;;
    esac
done
if [ -n "$missing" ]; then
    dpkg --add-architecture arm64
    # shellcheck disable=SC2086 # packages
    apt-get update -q && apt-get install -y -q --no-install-recommends --no-remove $missing || exit 77
fi
cmake -S . -B build-arm64 -DCMAKE_TOOLCHAIN_FILE=cmake/arm64.cmake >build-arm64.log || { cat build-arm64.log; exit 1; }
rm build-arm64.log
# Kernels and ops, tokenizers, data, checkpoints and what resuming holds, the longest first; training and resuming themselves are
# tried with the packages below, and against runs of this machine by tests/train_arm64.sh.
tests="test_tokenizer test_ops test_tiles test_portable test_elementary test_kernels test_rounded test_word_table
test_odd_tokenizers test_refused_tokenizers test_data test_packed_rows test_sft test_ckpt test_hashes test_resume"
jobs=${JOBS:-$(nproc)}
# shellcheck disable=SC2086 # targets
cmake --build build-arm64 -j "$jobs" --target manual $tests
# shellcheck disable=SC2086,SC2016 # names; the inner shell's
printf '%s\n' $tests | xargs -P "$jobs" -I{} sh -c 'qemu-aarch64-static "$0/{}" >"$0/{}.log" 2>&1 || { cat "$0/{}.log"; exit 1; }
    echo "{} under qemu: $(tail -n 1 "$0/{}.log")"' build-arm64/tests
cpack -G DEB --config build-arm64/CPackConfig.cmake -B build-arm64
tools/make_wheel.sh build-arm64
packaging/check_arm64.sh build-arm64
