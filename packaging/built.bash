# Sourced by what packs a built drover. $1 is the folder of the build, for this machine or, by a cross compiler, for another one;
# sets build, version, machine (as uname -m), loader (the program's), and run: the words that start a program of that machine.
build=$(realpath "$1")
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
loader=$(LC_ALL=C readelf -lW "$build/drover" | sed -n 's/.*program interpreter: \(.*\)\]/\1/p')
machine=$(basename "$loader" | sed -n 's/^ld-linux-\(.*\)\.so\..*/\1/p')
machine=${machine//-/_} # x86-64
[ -n "$version" ] && [ -n "$machine" ] || { echo "$build/drover has the loader \"$loader\", expected that of x86_64 or aarch64" >&2; exit 1; }
run=()
[ "$machine" = "$(uname -m)" ] || run=("qemu-$machine-static")
