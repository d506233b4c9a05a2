"""The names of profiler ranges: the kinds of work of a device."""

COMPILE = "vyre.cuda.pipeline.compile"
HOST = "vyre.cuda.host_dispatch"
RESIDENT = "vyre.cuda.resident_dispatch"
REPLAY = "vyre.cuda.graph_replay"
UPLOAD = "vyre.cuda.upload"
READBACK = "vyre.cuda.readback"
