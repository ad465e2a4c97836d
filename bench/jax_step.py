"""A training step of drover's PJRT back end beside one of plain JAX on the same plugin: what we print beside what JAX's users
print. The JAX side is a Llama as one writes it: jit of loss, gradient, clipping and AdamW with donated state.

  python bench/jax_step.py build/drover llama-15m 256 --batch 8 --micro 8 [--plugin ~/.cache/drover/pjrt/cpu/*.so] [--modes fp32,bf16]

Needs jax (any version whose plugin interface fits the plugin: 0.10.2 drove the CPU plugin of 0.11.2)."""
import glob, json, os, subprocess, sys, time
import peer_step

PLUGIN = os.path.expanduser("~/.cache/drover/pjrt/cpu/*.so")


def open_plugin(path):
    """JAX on the plugin; "jaxlib": on the CPU client inside jaxlib."""
    import jax
    if path != "jaxlib":
        from jax._src import xla_bridge
        xla_bridge.register_plugin("theplugin", library_path=path, options={"cpu_device_count": 1})
        jax.config.update("jax_platforms", "theplugin")
    return jax


def make_step(jax, shape, seq, precision, n_micro):
    import jax.numpy as jnp
    from jax import lax
    hidden, heads, kv = shape["hidden_size"], shape["num_attention_heads"], shape["num_key_value_heads"]
    inner, vocab, head = shape["intermediate_size"], shape["vocab_size"], hidden // heads
    compute = jnp.bfloat16 if precision == "bf16" else jnp.float32

    def init(key):
        def normal(key, *dims):
            return 0.02 * jax.random.normal(key, dims, jnp.float32)
        keys = iter(jax.random.split(key, 1 + 7 * shape["num_hidden_layers"]))
        layers = [dict(q=normal(next(keys), hidden, heads * head), k=normal(next(keys), hidden, kv * head),
            v=normal(next(keys), hidden, kv * head), o=normal(next(keys), heads * head, hidden),
            gate=normal(next(keys), hidden, inner), up=normal(next(keys), hidden, inner), down=normal(next(keys), inner, hidden),
            norm1=jnp.ones(hidden), norm2=jnp.ones(hidden)) for _ in range(shape["num_hidden_layers"])]
        return dict(table=normal(next(keys), vocab, hidden), layers=layers, norm=jnp.ones(hidden))

    def norm(x, w):
        y = x.astype(jnp.float32)
        return (y * lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-5) * w).astype(compute)

    frequency = shape["rope_theta"] ** (-jnp.arange(0, head, 2) / head)
    angle = jnp.arange(seq)[:, None] * frequency
    cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]

    def rope(x):
        a, b = jnp.split(x.astype(jnp.float32), 2, -1)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(compute)

    def loss_of(params, tokens, labels):
        p = jax.tree.map(lambda w: w.astype(compute) if w.ndim == 2 else w, params)
        x = p["table"][tokens]
        for w in p["layers"]:
            y = norm(x, w["norm1"])
            q, k, v = ((y @ w[n]).reshape(*y.shape[:2], -1, head) for n in "qkv")
            x = x + jax.nn.dot_product_attention(rope(q), rope(k), v, is_causal=True).reshape(x.shape) @ w["o"]
            y = norm(x, w["norm2"])
            x = x + (jax.nn.silu(y @ w["gate"]) * (y @ w["up"])) @ w["down"]
        logits = (norm(x, p["norm"]) @ p["table"].T).astype(jnp.float32)
        # As MaxText: one-hot labels, which XLA joins with the softmax; take_along_axis is a scatter in the gradient.
        return -(jax.nn.log_softmax(logits) * jax.nn.one_hot(labels, vocab)).sum(-1).mean() / n_micro

    def step(params, m, v, t, tokens, labels):
        def turn(carried, rows):
            loss, grads = jax.value_and_grad(loss_of)(params, *rows)
            return (carried[0] + loss, jax.tree.map(jnp.add, carried[1], grads)), None
        if n_micro == 1:
            loss, grads = jax.value_and_grad(loss_of)(params, tokens[0], labels[0])
        else:
            (loss, grads), _ = lax.scan(turn, (0.0, jax.tree.map(jnp.zeros_like, params)), (tokens, labels))
        total = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
        grads = jax.tree.map(lambda g: g * jnp.minimum(1, 1 / (total + 1e-6)), grads)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, v, grads)
        c1, c2 = 1 - 0.9 ** t, 1 - 0.95 ** t
        def update(p, m, v):
            return p - 1e-5 * (m / c1 / (jnp.sqrt(v / c2) + 1e-8) + (0.1 * p if p.ndim == 2 else 0))
        return jax.tree.map(update, params, m, v), m, v, loss, total

    return init, jax.jit(step, donate_argnums=(0, 1, 2))


def one(args, plugin, precision, micro):
    jax = open_plugin(plugin)
    import jax.numpy as jnp
    shape = peer_step.SHAPES[args.model]
    n_micro = args.batch // micro
    init, step = make_step(jax, shape, args.seq, precision, n_micro)
    params = jax.jit(init)(jax.random.key(0))
    m, v = (jax.tree.map(jnp.zeros_like, params) for _ in "mv")
    import numpy as np
    tokens = np.random.default_rng(0).integers(0, shape["vocab_size"], (n_micro, micro, args.seq), dtype=np.int32)
    if args.hlo:
        text = step.lower(params, m, v, 1.0, tokens, tokens).compile().as_text()
        open(args.hlo, "w").write(text)
    best = 1e9
    for i in range(1 + args.repeats):
        begin = time.perf_counter()
        params, m, v, loss, total = step(params, m, v, i + 1.0, tokens, tokens)
        loss = float(loss)
        if i:
            best = min(best, time.perf_counter() - begin)
    return round(args.batch * args.seq / best, 1)


def main():
    p = peer_step.parser("fp32,bf16", 8)
    p.add_argument("--plugin", default=(glob.glob(PLUGIN) or [""])[0], help='a PJRT plugin, or "jaxlib"')
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--hlo", help="write JAX's program after optimisation to this file")
    args = p.parse_args()
    if args.only:
        plugin, precision, micro = args.only.split("|")
        print(json.dumps(dict(tokens_per_s=one(args, plugin, precision, int(micro)))))
        return
    os.environ["DROVER_PJRT_PLUGIN"] = args.plugin
    for micro in args.micro.split(","):
        for precision in args.modes.split(","):
            r = subprocess.run([sys.executable, *sys.argv, "--only", f"{args.plugin}|{precision}|{micro}"], capture_output=True,
                text=True)
            if r.returncode:
                sys.exit(f"JAX {precision}: {r.stderr.strip().splitlines()[-1:]}")
            theirs = json.loads(r.stdout.strip().splitlines()[-1])["tokens_per_s"]
            ours = peer_step.drover_step(args, ["backend=pjrt", f"training.precision={precision}",
                f"training.micro_batch_size={micro}"])["tokens_per_s"]
            print(f"{args.model}, {args.batch} rows of {args.seq} in micro-batches of {micro}, {precision}: "
                f"JAX {theirs:.1f} tokens/s, drover {ours:.1f}, ratio {ours / theirs:.2f}", flush=True)


if __name__ == "__main__":
    main()
