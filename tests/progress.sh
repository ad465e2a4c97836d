#!/bin/bash
# Posts of progress to Kubeflow Trainer, taken by a server with TLS that rotates its token, refuses, breaks, redirects,
# says nothing, is of another CA, or is gone; see progress.py. usage: progress.sh DROVER
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
. "$tests"/tls.bash
make_data
make_certificates
expect 0 "" python3 -B "$tests"/progress.py "$drover"
finish
