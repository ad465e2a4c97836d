#!/bin/bash
# Posts of progress to Kubeflow Trainer, taken by a server with TLS that rotates its token, refuses, breaks, redirects,
# says nothing, is of another CA, or is gone; see progress.py. usage: progress.sh DROVER
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
if ! command -v openssl >/dev/null; then
    echo "skipped: no openssl to make certificates with"
    exit 77
fi
make_data
for ca in ca other; do
    openssl req -x509 -newkey rsa:2048 -nodes -keyout $ca.key -out $ca.pem -days 2 -subj "/CN=$ca" 2>err ||
        bad "a certificate" err
done
openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost 2>err &&
    openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out server.pem \
        -extfile <(echo subjectAltName=DNS:localhost) 2>err || bad "a certificate" err
expect 0 "" python3 -B "$tests"/progress.py "$drover"
finish
