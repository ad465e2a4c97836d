mode="a"; N=$((2 * (3 + 4) / -7 % 5 - 1))
if [[ $mode == "a" ]]; then export X=1; elif [ -v Y ] || [ "$Z" -gt 2 ]; then X=2; else X=$((1/0)); fi
case "$mode" in (a|b*) W=1;; @(c|d)) W=2 ;; *) W=3; esac
declare -a L=(--a 1 "b c" # why
  $X)
L+=(d); [ $N -lt 0 ] && M=1 || M=2; ! test -n "$M" && M=3
while getopts "a:" o; do M=4; done
. ./x.sh; python t.py "${L[@]}" ${L[@]} ${L[0]} $((9223372036854775807 + 1)) $((08)) $((
