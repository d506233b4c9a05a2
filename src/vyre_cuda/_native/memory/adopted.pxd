from vyre_cuda._native.core.context cimport Context, Stream

# The stream that a stream= argument names, None for None. A known handle is looked up and nothing else.
cdef Stream stream_of(Context context, object value)
