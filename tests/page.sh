#!/bin/bash
# The page of a run (training.http), asked as a browser, Prometheus and those who mean no good would ask; see page.py.
# usage: page.sh DROVER
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
make_data
head -c 18 /dev/urandom | base64 >password
expect 2 '--listen is "no port", expected a port or HOST:PORT' "$drover" page . --password-file password --listen "no port"
expect 1 'could not find the host "no-such-host.invalid" of --listen' "$drover" page . --password-file password --listen no-such-host.invalid:1
printf 'two words' >words && printf short >short
expect 1 '"words": expected one password of printable letters' "$drover" page . --password-file words
expect 1 '"short": a password of 5 characters, expected 16' "$drover" page . --password-file short
expect 2 'key "training.http" is "no port", expected none, a port from 0 to 65535, or HOST:PORT' \
    "$drover" config run.yaml --set training.http="no port"
for wrong in 65536 host: 127.0.0.1:x ::1:80 -1 http://x:80; do
    expect 2 'key "training.http"' "$drover" config run.yaml --set training.http="$wrong"
done
for right in 0 8080 127.0.0.1:0 '"[::1]:80"' node-1:9090 none; do
    expect 0 "http: " "$drover" config run.yaml --set training.http="$right"
done
expect 0 "" python3 -B "$tests"/page.py "$drover"
finish
