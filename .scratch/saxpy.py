import numpy as np, vyre_cuda as vc, time
b = vc.Builder("saxpy", block=256)
x = b.input("x", vc.f32); y = b.input("y", vc.f32); out = b.output("out", vc.f32, size=x.size); a = b.scalar("a", vc.f32)
i = b.let("i", vc.global_id.x)
with b.if_(i < out.size):
    out[i] = a * x[i] + y[i]
p = b.build()
print(p.text()); print(vc.ptx(p))
X = np.random.rand(1000).astype(np.float32); Y = np.random.rand(1000).astype(np.float32)
R = vc.evaluate(p, X, Y, 2.0)
assert (R == np.float32(2)*X+Y).all()
dev = vc.Device()
print(dev, dev.properties)
k = dev.compile(p)
for _ in range(3):
    r = k(X, Y, 2.0)
    assert (r == R).all()
r = k(x=X, y=Y, a=2.0); assert (r == R).all()
dx, dy = dev.array(X), dev.array(Y); do = dev.zeros(1000, vc.f32)
for j in range(5): k.launch(dx, dy, do, 3.0)
assert (do.numpy() == np.float32(3)*X+Y).all()
c = k.bind(dx, dy, do, 4.0)
for j in range(3): c()
assert (do.numpy() == np.float32(4)*X+Y).all()
c.set(a=5.0); c(); assert (do.numpy() == np.float32(5)*X+Y).all()
t = k.timed(X, Y, 2.0); print(t.wall_ns, t.device_ns); assert (t.outputs == R).all()
ps = [k.submit(X, Y, float(q)) for q in range(100)]
for q, pp in enumerate(ps): assert (pp.result() == np.float32(q)*X+Y).all()
print(dev.memory_stats(), k.attributes)
n=20000; t0=time.perf_counter()
for _ in range(n): k(X, Y, 2.0)
print((time.perf_counter()-t0)/n*1e6, "us/call emulator")
del c, dx, dy, do
dev.close()
print("ok")
dev = vc.Device(); k = dev.compile(p)
X = np.random.rand(1024).astype(np.float32); Y = X.copy(); R=np.empty_like(X)
def med(f, n=20000, sync=None):
    for _ in range(500): f()
    v=[]
    for _ in range(n):
        t0=time.perf_counter_ns(); f(); v.append(time.perf_counter_ns()-t0)
        if sync and len(v)%100==0: sync()
    v.sort(); return v[n//2]/1e3, v[n*99//100]/1e3
print("host dispatch 3x4KiB", med(lambda: k(X,Y,2.0,out=R)))
print("host dispatch 3x4KiB alloc", med(lambda: k(X,Y,2.0)))
dx, dy = dev.array(X), dev.array(Y); do = dev.zeros(1024, vc.f32)
print("launch same", med(lambda: k.launch(dx,dy,do,2.0), sync=dev.synchronize))
import itertools
c=itertools.cycle([1.0,2.0]); nx=c.__next__
print("launch changing", med(lambda: k.launch(dx,dy,do,nx()), sync=dev.synchronize))
bc=k.bind(dx,dy,do,4.0)
print("bound", med(bc, sync=dev.synchronize))
def bs(): bc(); dev.synchronize()
print("bound+sync", med(bs))
