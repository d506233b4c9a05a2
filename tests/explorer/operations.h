/* The public operations that are run against each other: one row each. What a later subsystem adds
 * is a function and a row. */
#ifndef EXPLORER_OPERATIONS_H
#define EXPLORER_OPERATIONS_H

#include <stdint.h>

#define OPERATION_TABLE(X)                                                                         \
  X("launch", launch_on_stream)                                                                    \
  X("launch-call-order", launch_in_call_order)                                                     \
  X("launch-reads", launch_that_reads)                                                             \
  X("launch-spare", launch_on_spare)                                                               \
  X("launch-free", launch_and_free)                                                                \
  X("launch-traced", launch_traced)                                                                \
  X("launch-many", launch_many)                                                                    \
  X("launch-many-free", launch_many_and_free)                                                      \
  X("call", call)                                                                                  \
  X("call-from", call_from_origin)                                                                 \
  X("call-set-run", call_set_run)                                                                  \
  X("call-set", call_set)                                                                          \
  X("call-made", call_made)                                                                        \
  X("kernel-made", kernel_made)                                                                    \
  X("graph-made", graph_made)                                                                      \
  X("graph-timed", graph_timed)                                                                    \
  X("graph-turns", graph_in_turns)                                                                 \
  X("collective", collective_replay)                                                               \
  X("collective-made", collective_made)                                                            \
  X("communicator-watch", communicator_watch)                                                      \
  X("communicator-close", communicator_close)                                                      \
  X("graph-rows", graph_of_rows)                                                                   \
  X("graph-places", graph_of_places)                                                               \
  X("graph-steps", graph_of_steps)                                                                 \
  X("graph-launch", graph_launch)                                                                  \
  X("graph-together", graph_together)                                                              \
  X("graph-change", graph_change)                                                                  \
  X("graph-update", graph_update)                                                                  \
  X("graph-symbol", graph_symbol)                                                                  \
  X("graph-set", graph_set)                                                                        \
  X("graph-cell", graph_of_a_cell)                                                                 \
  X("graph-info", graph_info)                                                                      \
  X("graph-captured", graph_captured)                                                              \
  X("forms", forms)                                                                                \
  X("forms-shared", forms_shared)                                                                  \
  X("forms-set", forms_set)                                                                        \
  X("forms-made", forms_made)                                                                      \
  X("forms-captured", forms_captured)                                                              \
  X("forms-shared-captured", forms_shared_captured)                                                \
  X("replay", replay)                                                                              \
  X("replay-scalar", replay_with_scalar)                                                           \
  X("replay-set", replay_set)                                                                      \
  X("replay-get", replay_get)                                                                      \
  X("copy-in", copy_in)                                                                            \
  X("copy-out", copy_out)                                                                          \
  X("try-in", try_in)                                                                              \
  X("try-out", try_out)                                                                            \
  X("copy-other-out", copy_other_out)                                                              \
  X("copy-own-out", copy_own_out)                                                                  \
  X("copy-within", copy_within)                                                                    \
  X("fill", fill)                                                                                  \
  X("stream-copy-in", stream_copy_in)                                                              \
  X("stream-copy-out", stream_copy_out)                                                            \
  X("stream-copy", stream_copy)                                                                    \
  X("stream-fill", stream_fill)                                                                    \
  X("upload", upload)                                                                              \
  X("download", download)                                                                          \
  X("gather", gather)                                                                              \
  X("fail", fail)                                                                                  \
  X("fail-wait", fail_and_wait)                                                                    \
  X("fail-read", fail_and_read)                                                                    \
  X("fail-written", fail_and_write)                                                                \
  X("fail-made", fail_of_made)                                                                     \
  X("fail-dropped", fail_and_drop_stream)                                                          \
  X("wait-stream", synchronize_stream)                                                             \
  X("wait-all", synchronize)                                                                       \
  X("wait-stream-short", wait_for_stream_shortly)                                                  \
  X("wait-all-short", wait_for_all_shortly)                                                        \
  X("wait-event", wait_for_event)                                                                  \
  X("wait-buffer", synchronize_buffer)                                                             \
  X("fence", fence)                                                                                \
  X("event", order_by_event)                                                                       \
  X("order", order_by_buffer)                                                                      \
  X("free", free_buffer)                                                                           \
  X("take", take_buffer)                                                                           \
  X("trim", trim)                                                                                  \
  X("budget", change_budget)                                                                       \
  X("try-buffer", try_buffer)                                                                      \
  X("export", export_buffer)                                                                       \
  X("host-run", host_run)                                                                          \
  X("bundled-run", bundled_run)                                                                    \
  X("kept-run", kept_run)                                                                          \
  X("copied-run", copied_run)                                                                      \
  X("pinned-run", pinned_run)                                                                      \
  X("registered-run", registered_run)                                                              \
  X("submit", submit)                                                                              \
  X("submit-dropped", submit_and_drop)                                                             \
  X("notice-stream", notice_of_stream)                                                             \
  X("notice-event", notice_of_event)                                                               \
  X("notice-ticket", notice_of_ticket)                                                             \
  X("notice-dropped", notice_of_dropped_ticket)                                                    \
  X("worker-call", worker_call)                                                                    \
  X("worker-call-hot", worker_call_hot)                                                            \
  X("worker-call-spread", worker_call_spread)                                                      \
  X("worker-call-left", worker_call_left)                                                          \
  X("worker-call-behind", worker_call_behind)                                                      \
  X("worker-calls", worker_calls)                                                                  \
  X("worker-awaited", worker_awaited)                                                              \
  X("worker-awaited-past-stop", worker_awaited_past_stop)                                          \
  X("worker-run", worker_run)                                                                      \
  X("worker-submit", worker_submit)                                                                \
  X("worker-submit-dropped", worker_submit_dropped)                                                \
  X("worker-pause", worker_pause)                                                                  \
  X("worker-pause-again", worker_pause_again)                                                      \
  X("worker-pause-behind", worker_pause_behind)                                                    \
  X("worker-call-withdrawn", worker_call_withdrawn)                                                \
  X("worker-call-withdrawn-early", worker_call_withdrawn_early)                                    \
  X("worker-call-kept", worker_call_kept)                                                          \
  X("worker-call-waited", worker_call_waited)                                                      \
  X("worker-pause-waited", worker_pause_waited)                                                    \
  X("worker-close", worker_close)                                                                  \
  X("worker-fault", worker_fault)                                                                  \
  X("worker-made", worker_made)                                                                    \
  X("stream-made", make_stream)                                                                    \
  X("stream-dropped", drop_stream)                                                                 \
  X("stream-used-dropped", use_and_drop_stream)                                                    \
  X("adopt-stream", adopt_stream)                                                                  \
  X("adopt-memory", adopt_memory)                                                                  \
  X("adopt-memory-of-own", adopt_memory_of_own_stream)                                             \
  X("statistics", read_statistics)                                                                 \
  X("reset-statistics", reset_statistics)                                                          \
  X("ask", ask)                                                                                    \
  X("enter", enter_context)                                                                        \
  X("open-other", open_other)                                                                      \
  X("depth", ask_depth)                                                                            \
  X("history", read_history)                                                                       \
  X("close", close_context)                                                                        \
  X("other-launch", other_launch)                                                                  \
  X("other-copy", other_copy)                                                                      \
  X("other-copy-back", other_copy_back)                                                            \
  X("other-wait", other_wait)                                                                      \
  X("other-close", other_close)                                                                    \
  X("ranks-reduce", ranks_reduce)                                                                  \
  X("ranks-thrice", ranks_thrice)                                                                  \
  X("ranks-together", ranks_together)                                                              \
  X("ranks-first", ranks_first)                                                                    \
  X("ranks-refused", ranks_refused)                                                                \
  X("ranks-close-first", ranks_close_first)                                                        \
  X("ranks-close-second", ranks_close_second)                                                      \
  X("ranks-abort", ranks_abort)                                                                    \
  X("ranks-abort-first", ranks_abort_first)                                                        \
  X("ranks-watch", ranks_watch)

#define OPERATION_DECLARED(name, function) void operate_##function(uint32_t thread);
OPERATION_TABLE(OPERATION_DECLARED)
#undef OPERATION_DECLARED

typedef struct operation_row {
  const char *name;
  void (*run)(uint32_t thread); /* on a logical thread, from 1 */
} operation_row;

extern const operation_row operation_rows[];
extern const uint32_t operation_count;

#endif
