/* The functions of the interface as pointers, for hosts that open the library with dlopen instead
 * of linking to it. vyre_cuda.h does not include this header.
 *
 *   void *library = dlopen("libvyre_cuda.so.0.1", RTLD_NOW | RTLD_LOCAL);
 *   vyc_functions vyre;
 *   const char *missing = vyc_functions_find(&vyre, library, dlsym);
 *   if (missing != NULL) ... an older library: it has no function of that name
 *   vyre.vyc_driver_open(&driver, NULL);
 *
 * dlclose is allowed once everything is released; the library itself stays in the process. */
#ifndef VYRE_CUDA_FUNCTIONS_H
#define VYRE_CUDA_FUNCTIONS_H

#include "../vyre_cuda.h"

/* Every public function once, in alphabetical order. Functions are only ever added. */
/* clang-format off */
#define VYC_FUNCTION_TABLE(X)                  \
  X(vyc_buffer_address)                        \
  X(vyc_buffer_adopt)                          \
  X(vyc_buffer_adopt_peer)                     \
  X(vyc_buffer_alloc)                          \
  X(vyc_buffer_export)                         \
  X(vyc_buffer_is_read_only)                   \
  X(vyc_buffer_order)                          \
  X(vyc_buffer_release)                        \
  X(vyc_buffer_synchronize_for)                \
  X(vyc_buffer_try_alloc)                      \
  X(vyc_buffer_try_release)                    \
  X(vyc_bundle_array_get)                      \
  X(vyc_bundle_condition_get)                  \
  X(vyc_bundle_extents)                        \
  X(vyc_bundle_graph_find)                     \
  X(vyc_bundle_graph_get)                      \
  X(vyc_bundle_info_get)                       \
  X(vyc_bundle_kernel_find)                    \
  X(vyc_bundle_kernel_get)                     \
  X(vyc_bundle_known_get)                      \
  X(vyc_bundle_open)                           \
  X(vyc_bundle_parameter_get)                  \
  X(vyc_bundle_release)                        \
  X(vyc_bundle_shape)                          \
  X(vyc_bundle_site_get)                       \
  X(vyc_bundle_step_get)                       \
  X(vyc_bundle_symbol_find)                    \
  X(vyc_bundle_symbol_get)                     \
  X(vyc_bundle_variant_get)                    \
  X(vyc_bundled_kernel_info_get)               \
  X(vyc_bundled_kernel_launch)                 \
  X(vyc_bundled_kernel_launch_many)            \
  X(vyc_bundled_kernel_load)                   \
  X(vyc_bundled_kernel_many)                   \
  X(vyc_bundled_kernel_prepared)               \
  X(vyc_bundled_kernel_release)                \
  X(vyc_bundled_kernel_resolve)                \
  X(vyc_bundled_kernel_run)                    \
  X(vyc_bundled_kernel_site)                   \
  X(vyc_bundled_kernel_submit)                 \
  X(vyc_bundled_worker_load)                   \
  X(vyc_call_create)                           \
  X(vyc_call_release)                          \
  X(vyc_call_run)                              \
  X(vyc_call_run_at)                           \
  X(vyc_call_set)                              \
  X(vyc_call_set_run)                          \
  X(vyc_caps_field)                            \
  X(vyc_collectives_begin)                     \
  X(vyc_collectives_cancel)                    \
  X(vyc_collectives_end)                       \
  X(vyc_collectives_run)                       \
  X(vyc_communicator_abort)                    \
  X(vyc_communicator_check)                    \
  X(vyc_communicator_close)                    \
  X(vyc_communicator_create)                   \
  X(vyc_communicator_left)                     \
  X(vyc_communicator_may_close)                \
  X(vyc_communicator_release)                  \
  X(vyc_communicator_run)                      \
  X(vyc_communicator_watch)                    \
  X(vyc_context_can_access_peer)               \
  X(vyc_context_caps)                          \
  X(vyc_context_close)                         \
  X(vyc_context_close_for)                     \
  X(vyc_context_count)                         \
  X(vyc_context_count_timing)                  \
  X(vyc_context_enable_peer)                   \
  X(vyc_context_enter)                         \
  X(vyc_context_in_flight)                     \
  X(vyc_context_is_behind)                     \
  X(vyc_context_leave)                         \
  X(vyc_context_measure)                       \
  X(vyc_context_memory_stats)                  \
  X(vyc_context_open)                          \
  X(vyc_context_open_with)                     \
  X(vyc_context_release)                       \
  X(vyc_context_reset_stats)                   \
  X(vyc_context_set_memory_budget)             \
  X(vyc_context_set_patience)                  \
  X(vyc_context_stats)                         \
  X(vyc_context_stream)                        \
  X(vyc_context_supports)                      \
  X(vyc_context_synchronize)                   \
  X(vyc_context_synchronize_for)               \
  X(vyc_context_trace)                         \
  X(vyc_context_trim)                          \
  X(vyc_copy)                                  \
  X(vyc_copy_in)                               \
  X(vyc_copy_out)                              \
  X(vyc_copy_try_in)                           \
  X(vyc_copy_try_out)                          \
  X(vyc_download)                              \
  X(vyc_driver_device_name)                    \
  X(vyc_driver_info_get)                       \
  X(vyc_driver_open)                           \
  X(vyc_driver_release)                        \
  X(vyc_driver_started)                        \
  X(vyc_event_elapsed)                         \
  X(vyc_event_notify)                          \
  X(vyc_event_query)                           \
  X(vyc_event_release)                         \
  X(vyc_event_synchronize)                     \
  X(vyc_event_synchronize_for)                 \
  X(vyc_event_try_release)                     \
  X(vyc_fence_create)                          \
  X(vyc_fence_release)                         \
  X(vyc_fence_wait)                            \
  X(vyc_fill)                                  \
  X(vyc_fill_zero)                             \
  X(vyc_graph_add_collectives)                 \
  X(vyc_graph_add_launch)                      \
  X(vyc_graph_add_rows)                        \
  X(vyc_graph_add_symbol)                      \
  X(vyc_graph_add_tables)                      \
  X(vyc_graph_add_tables_with)                 \
  X(vyc_graph_add_transfer)                    \
  X(vyc_graph_create)                          \
  X(vyc_graph_find_symbol)                     \
  X(vyc_graph_finish)                          \
  X(vyc_graph_in_turns)                        \
  X(vyc_graph_info_get)                        \
  X(vyc_graph_launch)                          \
  X(vyc_graph_launch_at)                       \
  X(vyc_graph_launch_between)                  \
  X(vyc_graph_launch_together)                 \
  X(vyc_graph_launch_with)                     \
  X(vyc_graph_node_get)                        \
  X(vyc_graph_own)                             \
  X(vyc_graph_release)                         \
  X(vyc_graph_repeat_begin)                    \
  X(vyc_graph_repeat_end)                      \
  X(vyc_graph_set)                             \
  X(vyc_graph_update)                          \
  X(vyc_last_error)                            \
  X(vyc_last_message)                          \
  X(vyc_module_block_size)                     \
  X(vyc_module_link)                           \
  X(vyc_module_load)                           \
  X(vyc_module_parameter)                      \
  X(vyc_module_release)                        \
  X(vyc_module_resident_blocks)                \
  X(vyc_nccl_ask)                              \
  X(vyc_nccl_open)                             \
  X(vyc_nccl_unique_id)                        \
  X(vyc_nccl_version)                          \
  X(vyc_one_shot_add)                          \
  X(vyc_one_shot_connect)                      \
  X(vyc_one_shot_leave)                        \
  X(vyc_one_shot_left)                         \
  X(vyc_one_shot_limit)                        \
  X(vyc_one_shot_open)                         \
  X(vyc_one_shot_share)                        \
  X(vyc_origin_add)                            \
  X(vyc_pinned_alloc)                          \
  X(vyc_pinned_data)                           \
  X(vyc_pinned_register)                       \
  X(vyc_pinned_release)                        \
  X(vyc_pinned_try_alloc)                      \
  X(vyc_prepared_add_several)                  \
  X(vyc_prepared_check)                        \
  X(vyc_prepared_create)                       \
  X(vyc_prepared_function)                     \
  X(vyc_prepared_launch)                       \
  X(vyc_prepared_launch_many)                  \
  X(vyc_prepared_release)                      \
  X(vyc_prepared_run)                          \
  X(vyc_prepared_submit)                       \
  X(vyc_replay_get)                            \
  X(vyc_replay_launch)                         \
  X(vyc_replay_load)                           \
  X(vyc_replay_release)                        \
  X(vyc_replay_set)                            \
  X(vyc_replay_site)                           \
  X(vyc_stats_row)                             \
  X(vyc_stream_adopt)                          \
  X(vyc_stream_copy)                           \
  X(vyc_stream_copy_in)                        \
  X(vyc_stream_copy_out)                       \
  X(vyc_stream_create)                         \
  X(vyc_stream_fill)                           \
  X(vyc_stream_handle)                         \
  X(vyc_stream_notify)                         \
  X(vyc_stream_query)                          \
  X(vyc_stream_record)                         \
  X(vyc_stream_release)                        \
  X(vyc_stream_synchronize)                    \
  X(vyc_stream_synchronize_for)                \
  X(vyc_stream_wait)                           \
  X(vyc_stream_wait_worker)                    \
  X(vyc_ticket_notify)                         \
  X(vyc_ticket_query)                          \
  X(vyc_ticket_release)                        \
  X(vyc_ticket_timing)                         \
  X(vyc_ticket_wait)                           \
  X(vyc_upload)                                \
  X(vyc_version)                               \
  X(vyc_worker_close)                          \
  X(vyc_worker_create)                         \
  X(vyc_worker_pause)                          \
  X(vyc_worker_pause_wait)                     \
  X(vyc_worker_release)                        \
  X(vyc_worker_resume)                         \
  X(vyc_worker_run)                            \
  X(vyc_worker_stats_get)                      \
  X(vyc_worker_submit)
/* clang-format on */

#ifdef __cplusplus
#define VYC_TYPE_OF(name) decltype(&::name)
#else
#define VYC_TYPE_OF(name) __typeof__(&name)
#endif

typedef struct vyc_functions {
#define VYC_FUNCTION_POINTER(name) VYC_TYPE_OF(name) name;
  VYC_FUNCTION_TABLE(VYC_FUNCTION_POINTER)
#undef VYC_FUNCTION_POINTER
} vyc_functions;

/* Find all of them; `find` is dlsym. Returns NULL, or the name of the first that is missing. */
static inline const char *vyc_functions_find(vyc_functions *functions_out, void *library,
                                             void *(*find)(void *library, const char *name)) {
  void *found;
#define VYC_FUNCTION_FIND(name)                                                                    \
  found = find(library, #name);                                                                    \
  if (found == NULL) return #name;                                                                 \
  memcpy(&functions_out->name, &found, sizeof found);
  VYC_FUNCTION_TABLE(VYC_FUNCTION_FIND)
#undef VYC_FUNCTION_FIND
  return NULL;
}

#endif
