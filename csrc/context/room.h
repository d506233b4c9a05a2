/* A context: its state, its children, streams and waits. */
#ifndef VYC_CONTEXT_ROOM_H
#define VYC_CONTEXT_ROOM_H

#include "child.h"
#include "context.h"
#include "embedding.h"
#include "report.h"
#include "stream.h"
#include "waiting.h"

#endif
