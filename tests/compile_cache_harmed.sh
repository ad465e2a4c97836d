#!/bin/bash
# The compile cache when its files are damaged, another program's or no files, written by several at once, or cannot be written: each
# is named, and the program is compiled again. (Of one layer, since the compiler takes as long as there are layers.)
. "$(dirname "$0")"/pjrt.bash
make_data
sed -i 's/num_hidden_layers: 2/num_hidden_layers: 1/' run.yaml
compile() { "$drover" compile run.yaml --set backend=pjrt --set pjrt.cache="$dir/compiled" "$@"; }
expect 0 "Total successful: 2" compile
says "Total graphs: 2" "Total failed: 0"
check "not two programs" [ "$(ls compiled | wc -l)" = 2 ]
own=(compiled/*)
ls -i compiled >files
expect 0 "Total successful: 2" compile
check "compiled again though they were there" cmp -s files <(ls -i compiled)
expect 0 "Total successful: 2" compile --set pjrt.flags=[xla_allow_excess_precision=True]
check "other options, but the same programs" [ "$(ls compiled | wc -l)" = 4 ]
expect 0 "Total successful: 2" compile
expect 0 "Total successful: 2" compile --set pjrt.flags=[xla_allow_excess_precision=True]
for harm in 'truncate -s 10|truncate -s 0' 'sed -i s/drvprog./drvprog0/|head -c 1000 /dev/urandom >'; do # of the one, and of the other
    eval "${harm%|*} ${own[0]}"
    eval "${harm#*|} ${own[1]}"
    expect 0 "Total successful: 2" compile
    for file in "${own[@]}"; do check "$file was not compiled again ($harm)" grep -q "compile cache: \"$dir/$file.*the program is compiled again" out; done
    expect 0 "Total successful: 2" compile
    check "harmed files were not replaced ($harm)" [ "$(grep -c 'compiled again' out)" = 0 ]
done
# A file that is whole, but of another program: of rows of another length, with as many arguments and results.
expect 0 "Total successful: 2" compile --set pjrt.cache="$dir/other" --set data.sequence_length=32
for file in compiled/*; do cp "$(ls -S other/* | sed -n 1p)" $file; done
expect 0 "Total successful: 2" compile
says 'it holds a different program, "whole_step"; the program is compiled again'
for file in compiled/*; do rm $file && mkfifo $file; done
expect 0 "Total successful: 2" timeout -k 5 200 "$drover" compile run.yaml --set backend=pjrt --set pjrt.cache="$dir/compiled"
says "it is a pipe, expected a file on a disk; the program is compiled again"
for i in 1 2 3; do compile >many$i 2>&1 --set data.sequence_length=32 & done
wait
for i in 1 2 3; do check "several writers: $i" grep -q "Total successful: 2" many$i; done
check "files written aside were left" [ -z "$(ls compiled | grep -v 'pjrt$')" ]
expect 0 "Total successful: 2" compile --set pjrt.cache=/dev/full
check "a folder that cannot be written: not one warning" [ "$(grep -c 'compile cache: ' out)" = 1 ]
expect 0 "Total successful: 2" "$drover" compile run.yaml --set backend=pjrt --set pjrt.cache=none
finish
