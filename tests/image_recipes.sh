#!/bin/bash
# Every path, package, program and target that packaging/Containerfile and Containerfile.vendors name is there, in the tree or in what
# it installs; each kind of fault planted in a recipe is named; and a plugin where the recipes put it is found by its name.
# usage: image_recipes.sh DROVER
tree=$(realpath "$(dirname "$0")/..")
. "$(dirname "$0")"/story.bash
[ -n "$(apt-cache show make 2>/dev/null)" ] || { echo "skipped: apt has no lists of packages here"; exit 77; }
mkdir -p installed/usr/bin
cp "$drover" installed/usr/bin/drover # as cmake/install.cmake does
grep -qE "install\(TARGETS drover" "$tree/cmake/install.cmake" && ok || bad "CMake installs the program in bin"
expect 0 "" python3 "$tree/tests/image_recipes.py" "$tree" installed
mkdir planted
for part in Makefile packaging tools; do cp -r "$tree/$part" planted/; done
planted() { # SED TEXT: a fault in the recipe of the vendors
    sed "$1" "$tree/packaging/Containerfile.vendors" >planted/packaging/Containerfile.vendors
    expect 1 "$2" python3 "$tree/tests/image_recipes.py" planted installed
}
planted 's/python3-pip/python3-pap/' "there is no package python3-pap"
planted 's/make program manual/make programme manual/' "make has no programme"
planted 's#packaging/runtime_packages.sh#packaging/runtime.sh#' "packaging/runtime.sh is no program of the tree"
planted 's#>/image.packages#>/image.list#' "build makes no /image.packages"
planted 's/^RUN mkdir -p/RUN makedir -p/' "there is no makedir on a Debian"
planted 's/fetch_pjrt.py --dir \/plugins cuda/fetch_pjrt.py --dir \/plugins coda/' "takes no"
planted 's#"/usr/bin/drover", "launch"#"/usr/bin/drover", "lunch"#' "drover has no"
planted 's#DROVER_PJRT_DIR=/opt/drover/pjrt#DROVER_PJRT_DIR=/opt/pjrt#' "nothing makes /opt/pjrt"
planted 's/--target ray/--target rays/' "the comment builds rays"
planted 's/^ARG RAY=.*/ARG RAY=ray/' "expected REGISTRY/NAME:TAG"
mkdir -p opt/drover/pjrt/neuron && touch real.so && ln -s "$PWD/real.so" opt/drover/pjrt/neuron/libneuronpjrt.so
expect 1 "opt/drover/pjrt/neuron/libneuronpjrt.so" env DROVER_PJRT_DIR="$PWD/opt/drover/pjrt" "$drover" doctor neuron
finish
