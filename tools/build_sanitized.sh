#!/bin/sh
# Builds the program and the tests in build-sanitized/ with clang, AddressSanitizer, UBSan and libFuzzer: what `make sanitize`, `make fuzz`
# and the parts of `make full` under sanitizers run. usage: build_sanitized.sh [TARGET]
set -e
cd "$(dirname "$0")/.."
tools/install_deps.sh clang
cmake -S . -B build-sanitized -DCMAKE_C_COMPILER=clang -DDROVER_FUZZ=ON -DDROVER_SANITIZE=ON -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_C_FLAGS_DEBUG="-O1 -g1" >build-sanitized.log 2>&1 || { cat build-sanitized.log; exit 1; }
rm -f build-sanitized.log
cmake --build build-sanitized -j "${JOBS:-$(nproc)}" --target "${1:-all}"
