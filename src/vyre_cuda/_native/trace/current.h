/* Where the calling thread is in its Python program: a code object and an instruction of it, read
 * without making a frame object. Here is all that differs between versions of CPython. */
#ifndef VYRE_CUDA_CURRENT_H
#define VYRE_CUDA_CURRENT_H

#include <Python.h>
#include <pythread.h>
#include <stdint.h>

#if PY_VERSION_HEX < 0x030b0000
#include <frameobject.h>
#elif PY_VERSION_HEX < 0x030c0000
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include <internal/pycore_frame.h>
#endif

/* A place that was seen to launch. It is never freed, and given to another code object only after
 * its own has died; so who finds the code that it runs in `code` finds a `where` and an origin that
 * stay. */
typedef struct vyre_seen {
  PyObject *code;          /* not held; NULL: none */
  intptr_t where;          /* the instruction, as a number that the code has once */
  uint32_t origin; /* VYRE_UNSEEN: it belongs to this package, and the caller is asked for */
  struct vyre_seen *after; /* what launched the same kernel next, the last time; a guess */
  struct vyre_seen *next; /* in its chain; of seen.h */
} vyre_seen;

#define VYRE_UNSEEN 0xffffffffu

/* The innermost Python frame; false: there is none. The code is borrowed: the frame has it while it
 * runs. */
static inline int vyre_current(PyObject **code_out, intptr_t *where_out) {
#if PY_VERSION_HEX < 0x030b0000
  PyFrameObject *frame = _PyThreadState_UncheckedGet()->frame;
  if (frame == NULL) return 0;
  *code_out = (PyObject *)frame->f_code;
  *where_out = frame->f_lasti;
#elif PY_VERSION_HEX < 0x030c0000
  _PyInterpreterFrame *frame = _PyThreadState_UncheckedGet()->cframe->current_frame;
  if (frame == NULL) return 0;
  *code_out = (PyObject *)frame->f_code;
  *where_out = (intptr_t)frame->prev_instr;
#else
#if PY_VERSION_HEX < 0x030d0000
  struct _PyInterpreterFrame *frame = _PyThreadState_UncheckedGet()->cframe->current_frame;
#else
  struct _PyInterpreterFrame *frame = PyThreadState_GetUnchecked()->current_frame;
#endif
  if (frame == NULL) return 0;
  PyObject *code = PyUnstable_InterpreterFrame_GetCode(frame);
  *where_out = PyUnstable_InterpreterFrame_GetLasti(frame);
  *code_out = code;
  Py_DECREF(code);
#endif
  return 1;
}

/* The same of a frame object and its code. */
static inline intptr_t vyre_where_of(PyFrameObject *frame, PyCodeObject *code) {
#if PY_VERSION_HEX < 0x030b0000
  (void)code;
  return frame->f_lasti;
#elif PY_VERSION_HEX < 0x030c0000
  return (intptr_t)(_PyCode_CODE(code) + PyFrame_GetLasti(frame) / (int)sizeof(_Py_CODEUNIT));
#else
  (void)code;
  return PyFrame_GetLasti(frame);
#endif
}

static inline int vyre_is_at(const vyre_seen *seen, const PyObject *code, intptr_t where) {
  return __atomic_load_n(&seen->code, __ATOMIC_ACQUIRE) == code && seen->where == where;
}

/* Whether the innermost frame is where `*place` was, or came after that the last time; then its
 * origin. */
static inline int vyre_origin_again(vyre_seen **place, uint32_t *origin_out) {
  PyObject *code;
  intptr_t where;
  vyre_seen *seen = __atomic_load_n(place, __ATOMIC_ACQUIRE);
  if (seen == NULL || !vyre_current(&code, &where)) return 0;
  if (__builtin_expect(!vyre_is_at(seen, code, where), 0)) {
    seen = __atomic_load_n(&seen->after, __ATOMIC_ACQUIRE);
    if (seen == NULL || !vyre_is_at(seen, code, where)) return 0;
    __atomic_store_n(place, seen, __ATOMIC_RELEASE);
  }
  *origin_out = seen->origin;
  return 1;
}

/* `seen` has an origin. */
static inline void vyre_seen_keep(vyre_seen **place, vyre_seen *seen) {
  vyre_seen *before = __atomic_exchange_n(place, seen, __ATOMIC_ACQ_REL);
  if (before != NULL && before != seen) __atomic_store_n(&before->after, seen, __ATOMIC_RELEASE);
}

#endif
