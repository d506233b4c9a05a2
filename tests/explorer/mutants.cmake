# Defects of the library itself that the explorer must find: a program for each, with one source in which
# one place is changed; --plant has those of the model and of the scene. Limits that no schedule is long
# enough for are small in programs of their own, which must find nothing.
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/mutants)

# vyc_changed(NAME file of csrc, text of the file, what stands there instead): the program explorer_NAME
function(vyc_changed name file from to)
  set(source ${PROJECT_SOURCE_DIR}/csrc/${file})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(READ ${source} text)
  string(REPLACE "${from}" "${to}" changed "${text}")
  if(changed STREQUAL text)
    message(FATAL_ERROR "tests/explorer/mutants.cmake: ${file} has no place for ${name}; say where it is now")
  endif()
  set(mutant ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name}.c)
  file(CONFIGURE OUTPUT ${mutant} CONTENT "#line 1 \"${source}\"\n@changed@" @ONLY)
  add_library(mutated_${name} OBJECT ${mutant})
  set_source_files_properties(${mutant} PROPERTIES OBJECT_DEPENDS ${VYC_POINTS})
  cmake_path(GET source PARENT_PATH folder)
  target_include_directories(mutated_${name} PRIVATE ${PROJECT_SOURCE_DIR}/csrc
    ${PROJECT_SOURCE_DIR}/csrc/include ${folder})
  target_compile_definitions(mutated_${name} PRIVATE _GNU_SOURCE=)
  target_compile_options(mutated_${name} PRIVATE ${VYC_EXPLORED} -w)
  string(REGEX REPLACE "[.]" "[.]" excluded "csrc/${file}")
  add_executable(explorer_${name} $<TARGET_OBJECTS:explorer_parts> $<TARGET_OBJECTS:mutated_${name}>
    $<FILTER:$<TARGET_OBJECTS:explored>,EXCLUDE,${excluded}>)
  target_link_libraries(explorer_${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(explorer_${name} PRIVATE ${VYC_WRAPPED})
endfunction()

# vyc_mutant(NAME file of csrc, pair in which, what it says, text of the file, what stands there instead)
function(vyc_mutant name file pair told from to)
  vyc_changed(${name} ${file} "${from}" "${to}")
  add_test(NAME explorer_${name} COMMAND explorer_${name} --pair ${pair} --budget 2000 --random 0)
  set_tests_properties(explorer_${name} PROPERTIES PASS_REGULAR_EXPRESSION "${told}")
  # and finds nothing without it
  add_test(NAME explorer_without_${name} COMMAND explorer --pair ${pair} --budget 100 --random 0)
  set_tests_properties(explorer_${name} explorer_without_${name} PROPERTIES LABELS explorer TIMEOUT 1200)
endfunction()

# vyc_small(NAME file of csrc, pairs, text of the file, what stands there instead): with a limit so
# small that schedules get to it, nothing is found
function(vyc_small name file pairs from to)
  vyc_changed(${name} ${file} "${from}" "${to}")
  foreach(pair IN LISTS pairs)
    string(REPLACE ":" "-" case ${pair})
    add_test(NAME explorer_${name}_${case} COMMAND explorer_${name} --pair ${pair} --budget 50 --random 0)
    set_tests_properties(explorer_${name}_${case} PROPERTIES LABELS explorer TIMEOUT 1200)
  endforeach()
endfunction()

vyc_mutant(launches-unseen collective/one_shot.c ranks-reduce:ranks-close-second
  "cuMemFree of memory that work in flight touches"
  [=[  atomic_fetch_add(&g->ranks[c->rank].launching, 1);
  vyc_status status = VYC_LIKELY(!atomic_load(&g->ranks[c->rank].ended))]=]
  [=[  const bool has_ended = atomic_load(&g->ranks[c->rank].ended);
  atomic_fetch_add(&g->ranks[c->rank].launching, 1);
  vyc_status status = VYC_LIKELY(!has_ended)]=])
vyc_mutant(keeps-calls collective/one_shot.c ranks-refused:ranks-close-second
  "a rank left the group while another one waits"
  [=[if (VYC_UNLIKELY(!is_launched)) atomic_fetch_sub(&g->ranks[c->rank].calls, calls);]=] "")
vyc_mutant(overwrites-cut collective/inboxes.c ranks-thrice:ranks-abort-first
  "the schedule does not end"
  [=[__atomic_compare_exchange_n(g->ranks[rank].word, &runs, VYC_WORD_ENDS, false, __ATOMIC_ACQ_REL,
                              __ATOMIC_ACQUIRE);]=]
  [=[(void)runs;
  __atomic_store_n(g->ranks[rank].word, VYC_WORD_ENDS, __ATOMIC_RELEASE);]=])
vyc_mutant(tells-late collective/inboxes.c ranks-first:ranks-close-second
  "which the other rank has no part in ended well"
  [=[    g->ranks[rank].is_told = true;
]=]
  [=[    g->ranks[rank].is_told = true;
    set_word(g, rank);
]=])
vyc_mutant(tells-nobody collective/inboxes.c ranks-first:ranks-close-second
  "the schedule does not end"
  [=[return calls > atomic_load(&g->ranks[rank].calls);]=] [=[return false;]=])
vyc_mutant(leaves-at-once collective/inboxes.c ranks-reduce:ranks-close-second
  "cuMemFree of memory that work in flight touches"
  [=[    if (other != rank && !has_left(g, other)) are_over &= await_other(g, other, scope);]=]
  [=[    (void)scope;]=])
vyc_mutant(stays-inside collective/inboxes.c ranks-close-first:other-close
  "work on device . has not ended after 2.000 s"
  [=[if (rests) vyc__scope_rest(own);]=] [=[]=])
vyc_mutant(breaks-for-good context/broken.c ranks-close-first:ranks-abort
  "whose group has ended, gave 15"
  [=[if (atomic_load(&context->communicators) == 0)]=] [=[if (false)]=])
vyc_mutant(looks-on collective/communicator.c ranks-watch:ranks-abort
  "ncclCommGetAsyncError of a communicator that has ended"
  [=[  pthread_mutex_lock(&c->look_lock);
  pthread_mutex_unlock(&c->look_lock);
]=] "")
vyc_mutant(ends-unsaid collective/communicator.c ranks-reduce:ranks-abort
  "a call was refused without a reason"
  [=[    status = vyc__context_break(context, message);
    atomic_store(&communicator->ended, true);
]=]
  [=[    atomic_store(&communicator->ended, true);
    status = vyc__context_break(context, message);
]=])
vyc_mutant(awaits-twice collective/communicator.c ranks-close-first:ranks-close-second
  "a lock was left by a thread that has ended"
  [=[atomic_exchange(&c->ending, NULL)]=] [=[atomic_load(&c->ending)]=])
vyc_mutant(closes-beside-peers memory/peer_close.c other-copy-back:other-close
  "cuMemFree of memory that work in flight touches"
  [=[  return all;
}

void vyc__peers_forget]=] [=[  return true;
}

void vyc__peers_forget]=])
vyc_mutant(copies-unordered memory/peers.c other-copy:launch-call-order
  "reads from hot what launch in call order .* writes after it"
  [=[  VYC_TRY(order(context, other->main, stream));
]=] "")
vyc_mutant(copies-between context/together.c ranks-together:other-copy
  "the schedule does not end"
  [=[return t->count < 2;]=] [=[return t->count > 0;]=])
vyc_mutant(looks-for-ever memory/peer_close.c close:other-close
  "work on device . has not ended after 2.000 s"
  [=[  if (all) looking = NULL;]=] "")
vyc_mutant(closes-unwaited device/close.c other-wait:other-close
  "cuStreamQuery on stream .* which was destroyed"
  [=[while (atomic_load(&context->gates[i].inside) != 0)]=] [=[while (false)]=])
vyc_mutant(forgets-reports memory/marks.c fail-written:launch-reads
  "ended well, and does not tell of a launch .* that has failed"
  [=[  vyc__reports_copied_after(context, slot);
]=] "")
vyc_mutant(forgets-reports-of-tries memory/marks.c fail-read:launch-call-order
  "ended well, and does not tell of a launch .* that has failed"
  [=[  vyc__reports_copied_after(context, slot);
]=] "")
vyc_mutant(stops-again worker/ring.c worker-awaited-past-stop:worker-pause
  "the schedule does not end"
  [=[  if (runs ? ring->has_stop : comes_to_stop(ring)) return;
]=] "")
vyc_mutant(goes-until-stop worker/ring.c worker-awaited-past-stop:worker-pause
  "the schedule does not end"
  [=[return ring->has_stop ? launch_it(ring, until) : VYC_OK;]=] [=[return VYC_OK;]=])
vyc_mutant(leaves-unordered worker/behind.c worker-call-left:launch
  "launch behind a call that was left .* reads from"
  [=[  VYC_TRY(wait_for_parts(&on, call));
]=] [=[  (void)wait_for_parts;
]=])
vyc_mutant(runs-emptied worker/ring.c worker-call-withdrawn:worker-pause
  "call of a worker that is withdrawn .* has run"
  [=[  put_word(slot_of(ring, number), 1, number, 0);
]=] "")
vyc_mutant(withdraws-late worker/ring.c worker-call-withdrawn-early:history
  "call of a worker that is withdrawn .* has run"
  [=[return (int32_t)(number - ring->due) > 0;]=]
  [=[return (int32_t)(number - ring->due) > 0 &&
         (!vyc__ring_is_running(ring) || comes_to_stop(ring));]=])
vyc_mutant(takes-in-pause worker/ring.c worker-call-kept:launch
  "call of a worker in a pause .* has run before its end"
  [=[  return (int32_t)(ring->stop - ring->due) > 0;]=] [=[  return true;]=])
vyc_mutant(pauses-early worker/pause.c worker-pause-behind:launch
  "a pause has ended before a call that was submitted before it"
  [=[  EACH_RING(ring, worker) VYC_TRY(finish_due(ring, &pace));
]=] [=[  (void)finish_due;
]=])
vyc_mutant(waits-for-kept worker/pause.c wait-all:worker-pause-waited
  "the schedule does not end"
  [=[const uint32_t last = vyc__ring_last(ring);]=] [=[const uint32_t last = *ring->next - 1;]=])
vyc_mutant(waits-for-none worker/worker.c worker-call-waited:trim
  "launch behind a wait for all .* reads from own what"
  [=[    if (status == VYC_OK) status = vyc__worker_finish(worker, &pace);]=]
  [=[    if (status == VYC_OK && !vyc__worker_is_paused(worker))
      status = vyc__worker_finish(worker, &pace);]=])
vyc_small(notes-soon worker/notes.c "fence:worker-calls;fence:worker-call-kept;fence:worker-close"
  [=[(UINT64_C(1) << 24)]=] [=[UINT64_C(0)]=])
