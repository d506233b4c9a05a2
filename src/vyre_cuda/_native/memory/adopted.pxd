from vyre_cuda._native.core.context cimport Context, Stream

# The stream that a stream= argument names, None for None. A known handle is only looked up.
cdef Stream stream_of(Context context, object value)
