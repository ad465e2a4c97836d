"""A server with TLS that takes posts, in a folder with server.pem and server.key (tls.bash makes them)."""
import http.server, ssl, threading, time

PATIENCE = 120  # seconds


class Server:
    """Answers each post with a status; 0: it says nothing."""

    def __init__(self, status):
        self.posts = []  # (seconds, path, token, body)
        posts, stays = self.posts, threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *words):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                posts.append((time.time(), self.path, self.headers["Authorization"], self.headers["Content-Type"], body))
                if status == 0:
                    stays.wait(PATIENCE)
                self.send_response(status or 200)
                if status == 302:
                    self.send_header("Location", "https://localhost/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

        class Quiet(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *what):
                pass

        self.server = Quiet(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain("server.pem", "server.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.port = self.server.server_address[1]
