"""GB/s of programs with several elements a thread (passes/elements.py), N elements."""
import sys, time, statistics as st, numpy as np, vyre_cuda as vc
from vyre_cuda.passes.elements import several
from vyre_cuda.records import replace
from vyre_cuda.ir.core.nodes import Apply, Const, Size
emu = "emulator" in sys.argv
dev = vc.Device("emulator" if emu else 0)
def saxpy(t):
    b = vc.Builder("saxpy", block=256); X = b.input("x", t); Y = b.input("y", t); O = b.inout("o", t); a = b.scalar("a", t); i = b.let("i", vc.global_id.x)
    with b.if_(i < O.size): O[i] = a * X[i] + Y[i]
    return b.build(), 3
def copy(t):
    b = vc.Builder("copy", block=256); X = b.input("x", t); O = b.inout("o", t); i = b.let("i", vc.global_id.x)
    with b.if_(i < O.size): O[i] = X[i]
    return b.build(), 2
def math(t):
    b = vc.Builder("math", block=256); X = b.input("x", t); O = b.inout("o", t); i = b.let("i", vc.global_id.x)
    with b.if_(i < O.size): O[i] = vc.exp(vc.sin(X[i])) * vc.log(X[i])
    return b.build(), 2
def compiled(p, v):
    if v == 1: return dev.compile(p), ()
    q, name = several(p, v)
    n = Size(q.index, "o")
    q = replace(q, work=(Apply(q.index, "floor_divide", (Apply(q.index, "add", (n, Const(q.index, v - 1))), Const(q.index, v))),))
    return dev.compile(q), (0,)
for what, t, sizes in ((saxpy, vc.f32, (10, 14, 16, 18, 20, 22, 24, 28)), (saxpy, vc.f16, (28,)), (saxpy, vc.u8, (28,)), (saxpy, vc.f64, (27,)), (copy, vc.f32, (28,)), (math, vc.f32, (28,))):
    p, arrays = what(t)
    ks = {v: compiled(p, v) for v in (1, 2, 4, 8)}
    for lg in sizes:
        n = 1 << (min(lg, 12) if emu else lg)
        rng = np.random.default_rng(1)
        x = dev.array((rng.random(n) * 7 + 1).astype(t.dtype)); y = dev.array((rng.random(n) * 7).astype(t.dtype)); o = dev.zeros(n, t)
        base = {saxpy: (x, y, o, 2), copy: (x, o), math: (x, o)}[what]
        calls = {}; answers = {}
        for v, (k, more) in ks.items():
            calls[v] = k.bind(*base, *([n + (-n) % 256] if more else []))
            o.fill(0); calls[v](); dev.synchronize(); answers[v] = o.numpy().tobytes()
        assert len(set(answers.values())) == 1, (what, t, lg)
        reps = 1 if emu else (20 if lg >= 27 else 300)
        inner = 1 if lg >= 24 else 50
        out = {v: [] for v in calls}
        for r in range(reps):
            for v, c in calls.items():
                dev.synchronize(); a = time.perf_counter()
                for _ in range(inner): c()
                dev.synchronize(); out[v].append((time.perf_counter() - a) / inner)
            if inner > 1 and r > 20: break
        print(f"{what.__name__:6s} {t!s:4s} 2^{lg:<3d}", *(f"v{v}: {st.median(s) * 1e6:9.2f} us {arrays * n * t.itemsize / st.median(s) / 1e9:7.0f} GB/s |" for v, s in out.items()), flush=True)
        del x, y, o, calls
