#!/bin/bash
export TP=8 HS="40 96"
: ${GBS:=256} ${UBS=1}
A='x'$TP"y\"$HS"; A+=z
if [ "$C" = 1 ]; then B=$(date); for h in a b; do D=`x`; done; fi
f() { E=1; }
case $x in a) F=1;; esac
cat <<EOF >/dev/null
$TP
EOF
$M torchrun --nproc_per_node $TP train.py \
    a.b=${TP} c=[1.0,/x] d=${UBS:-2} $HS 2>&1 | tee log
