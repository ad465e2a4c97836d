# Sourced by tests with a server of their own (tls_server.py). make_certificates: ca.pem, other.pem (of another CA), server.pem
# and server.key of localhost. Without openssl the test says so and is skipped.
if ! command -v openssl >/dev/null; then
    echo "skipped: no openssl to make certificates with"
    exit 77
fi
make_certificates() {
    for ca in ca other; do
        openssl req -x509 -newkey rsa:2048 -nodes -keyout $ca.key -out $ca.pem -days 2 -subj "/CN=$ca" 2>err ||
            bad "a certificate" err
    done
    openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost 2>err &&
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out server.pem \
            -extfile <(echo subjectAltName=DNS:localhost) 2>err || bad "a certificate" err
}
