#include "match/replay.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "delay/clock.h"
#include "identify/observe.h"
#include "identify/repetition.h"
#include "match/place.h"

/*
 * Limits the floor, so that a machine that was busy during the calibration does not leave out calls that can be held.
 */
#define FLOOR_NS_MAX (20 * NS_PER_US)

static enum verdict count_uncovered(struct replay *replay, const struct seccomp_notif *notif, struct call *call)
{
	const enum uncovered what = syscall_uncovered(notif->data.arch, notif->data.nr);

	atomic_fetch_add(&replay->uncovered[what], 1);
	/* Programs then use other calls to write, as they have to on kernels without io_uring. */
	if (what == UNCOVERED_IO_URING && replay->options->deny_io_uring) {
		call->is_answered = true;
		call->error = ENOSYS;
	}
	return VERDICT_PASS;
}

static uint32_t bytes_asked(const struct seccomp_notif *notif, unsigned op)
{
	const __u64 *arguments = notif->data.args;

	if (op_is_sync(op))
		return SIZE_UNKNOWN;
	if (op == OP_WRITE || op == OP_PWRITE64)
		return arguments[2] < SIZE_UNKNOWN ? arguments[2] : SIZE_UNKNOWN;
	return observe_iovec_bytes(notif->pid, arguments[1], arguments[2]);
}

/*
 * Continues the wait of a call that a signal interrupted. Without WAIT_KILLABLE_RECV, the kernel makes the call again
 * after a signal. If each repetition began a new wait, the call would never end when signals arrive faster than the
 * wait.
 */
static bool go_on(struct replay *replay, struct thread *thread, const struct seccomp_data *data, struct call *call)
{
	struct call *held = thread->call;

	if (!held || !timers_take(&replay->server->timers, held, thread->call_id))
		return false;
	thread->call = NULL;
	const bool repeats = thread_repeats(thread, data);
	if (repeats) {
		call->record = held->record;
		call->is_recorded = held->is_recorded;
		call->is_answered = held->is_answered;
		call->error = held->error;
		call->deadline_ns = held->deadline_ns;
		call->is_repeated = true;
		held->is_recorded = false;
	}
	server_forget(replay->server, held);
	return repeats;
}

/*
 * Returns whether the call repeats one that a signal interrupted just after its time was over: it was recorded then,
 * and has its answer.
 *
 * With WAIT_KILLABLE_RECV, kernels before 6.18 and 6.12.52 may repeat a call too, if a signal coincides with a reply
 * within a microsecond. This cannot be distinguished from a loop that writes the same again, so it counts as another
 * call, which alignment treats as an extra one.
 */
static bool was_over(struct replay *replay, const struct thread *thread, const struct seccomp_data *data,
		     struct call *call)
{
	while (thread->call && atomic_load(&thread->call->id) == thread->call_id)
		sched_yield(); /* its reply is being sent, in vain */
	call->is_repeated = server_take_interrupted(replay->server, thread->tid, call) && thread_repeats(thread, data);
	if (!call->is_repeated) {
		call->is_answered = false;
		call->error = 0;
	}
	return call->is_repeated;
}

/*
 * Returns whether the call is to be made short. A call that the runner makes must not be made again, as the kernel does
 * if signals end waits. An error takes precedence, because nothing is written then.
 */
static bool is_made_short(const struct replay *replay, const struct match *match)
{
	const struct features *features = &replay->calibration->features;

	return match->is_short && !match->error && features->wait_killable && features->pidfd_getfd;
}

static enum verdict act(struct replay *replay, const struct match *match, struct call *call)
{
	struct report_call *record = &call->record;
	const struct calibration *calibration = replay->calibration;

	record->stream = match->stream;
	record->event = match->event;
	record->how = match->how;
	record->error = match->error;
	if (match->error) {
		call->is_answered = true;
		call->error = match->error;
		record->how = HOW_ERROR_INJECTED;
	}
	if (match->how == HOW_NO_STREAM)
		return VERDICT_PASS;
	const enum verdict at_once = is_made_short(replay, match) ? VERDICT_MAKE : VERDICT_PASS;
	if (match->how != HOW_STALL && match->target_ns < replay->options->threshold_ns) {
		/* A call without an event keeps how it got its target: it is no event that is below the threshold. */
		if (!match->error && match->event != NONE)
			record->how = HOW_BELOW_THRESHOLD;
		return at_once;
	}
	record->target_ns = match->target_ns;
	/* No call behind a listener can take less. */
	if (match->target_ns <= calibration->floor_ns && match->target_ns <= FLOOR_NS_MAX)
		return at_once;
	const uint64_t target_ns = match->target_ns < UINT64_MAX / 2 ? match->target_ns : UINT64_MAX / 2;
	const uint64_t wait_ns = target_ns > calibration->bias_ns ? target_ns - calibration->bias_ns : 0;
	call->deadline_ns = record->received_ns + wait_ns;
	if (at_once == VERDICT_MAKE || (op_is_sync(record->op) && !match->error))
		return VERDICT_MAKE;
	return VERDICT_HOLD;
}

static struct match match_of(struct replay *replay, const struct seccomp_notif *notif, const struct thread *thread,
			     struct report_call *record)
{
	const struct place place = place_find(replay, notif, thread->role, record->op);

	record->flags = place.stands_in ? CALL_FLAG_STANDS_IN : 0;
	if (place.stands_in && streams_stream(replay->streams, place.group, thread->role) == NONE)
		record->flags |= CALL_FLAG_OTHER_ROLE;
	if (replay->options->mode == MODE_STALL)
		return stalls_match(&replay->stalls, place.group, record->received_ns);
	struct match match = matcher_match(&replay->matcher, &(struct observed){
								 .group = place.group,
								 .is_sync = op_is_sync(record->op),
								 .path_kind = place.path_kind,
								 .tid = notif->pid,
								 .comm = thread->comm,
								 .role = thread->role,
								 .size = record->size,
							     });
	faults_fit(&replay->faults, &match, record->op);
	/* A guessed place is good enough for a wait, but not for an error. */
	if (place.is_guessed)
		match.error = match.is_short = 0;
	return match;
}

/*
 * Returns whether another thread must look if the call repeats one that a signal interrupted. The look can take
 * milliseconds while the build's thread waits for a CPU, and calls that wait for the receiver can be interrupted, too.
 */
static bool is_to_be_looked_at(struct replay *replay, struct thread *thread, uint64_t now_ns)
{
	if (atomic_load(&replay->interrupted) == 0 || thread->looked_ns > replay->interrupted_ns)
		return false;
	thread->looked_ns = now_ns;
	return replay->calibration->features.wait_killable;
}

/*
 * Subtracts a repeated call from the interrupted ones: if several are gone just before it, signals interrupted it again
 * and again.
 */
static void take_back(struct replay *replay, uint32_t skipped)
{
	const uint64_t repeated = skipped ? skipped : 1;
	uint64_t interrupted = atomic_load(&replay->interrupted);

	while (!atomic_compare_exchange_weak(&replay->interrupted, &interrupted,
					     interrupted > repeated ? interrupted - repeated : 0))
		;
}

void replay_look(void *context, struct call *call)
{
	struct replay *replay = context;
	const uint32_t tid = call->record.tid;
	const uint32_t repetition = repetition_of(&replay->signal_stacks, call->record.pid, tid, &call->data);

	if (repetition == 0)
		return;
	pthread_mutex_lock(&replay->repetitions_lock);
	/* A frame that was seen before is from an earlier interruption. */
	if (table_get(&replay->repetitions, &tid, sizeof(tid)) != repetition)
		take_back(replay, call->skipped);
	if (replay->repetitions.count >= THREADS_MAX)
		table_clear(&replay->repetitions);
	table_put(&replay->repetitions, &tid, sizeof(tid), repetition);
	pthread_mutex_unlock(&replay->repetitions_lock);
}

enum verdict replay_decide(void *context, const struct seccomp_notif *notif, struct call *call)
{
	struct replay *replay = context;
	struct report_call *record = &call->record;
	const int op = notif->data.arch == NATIVE_ARCH ? syscall_op(notif->data.nr) : -1;

	if (op < 0)
		return count_uncovered(replay, notif, call);
	if (atomic_load_explicit(&replay->is_passing, memory_order_relaxed))
		return VERDICT_PASS;
	struct thread *thread = threads_get(&replay->threads, notif->pid, record->received_ns);
	if (!thread)
		return VERDICT_PASS;
	call->data = notif->data;
	call->is_looked_at = is_to_be_looked_at(replay, thread, record->received_ns);
	if (go_on(replay, thread, &notif->data, call)) {
		thread->call = call;
		thread->call_id = call->id;
		return VERDICT_HOLD;
	}
	if (!replay->calibration->features.wait_killable && was_over(replay, thread, &notif->data, call))
		return VERDICT_PASS;
	record->pid = thread->process;
	call->is_output = place_is_output(replay, notif, thread->role, op);
	if (call->is_output)
		return call->is_looked_at ? VERDICT_MAKE : VERDICT_PASS;
	record->tid = notif->pid;
	record->op = op;
	record->size = bytes_asked(notif, op);
	call->is_recorded = true;
	const struct match match = match_of(replay, notif, thread, record);
	enum verdict verdict = act(replay, &match, call);
	call->is_made = verdict == VERDICT_MAKE;
	if (call->is_looked_at)
		verdict = VERDICT_MAKE;
	thread->data = notif->data;
	thread->call = verdict == VERDICT_HOLD ? call : NULL;
	thread->call_id = call->id;
	return verdict;
}

void replay_interrupted(void *context, uint64_t now_ns)
{
	struct replay *replay = context;

	atomic_fetch_add(&replay->interrupted, 1);
	replay->interrupted_ns = now_ns;
	if (!replay->threads.handles_signals)
		replay->threads.renew_ns = now_ns;
}

void replay_pass(struct replay *replay, bool is_passing)
{
	atomic_store(&replay->is_passing, is_passing);
	timers_hurry(&replay->server->timers, is_passing);
}
