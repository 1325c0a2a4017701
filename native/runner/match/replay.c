#include "match/replay.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "delay/clock.h"
#include "identify/keys.h"
#include "identify/observe.h"
#include "identify/recorded_name.h"

#define NAMES_KNOWN_MAX 4096
#define STANDARD_FD_MAX 2
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

/* The class of a call and who makes it. */
struct caller {
	bool is_sync;
	const char *role;
};

/* The target of a call. */
struct place {
	uint32_t group;     /* NONE: it is not in the plan */
	uint32_t path_kind; /* PATH_KIND_*; NONE: the descriptor is not open */
	bool is_unseen;     /* it has no file, or one that cannot be seen */
	bool is_guessed;    /* so the group is that of another call of such a thread */
	bool stands_in;     /* its file has another name than the plan's */
};

/* A key of place_by_name: a file's name from /proc, without a terminating zero, after the other parts of the key. */
struct seen {
	char before[2];
	char name[PATH_MAX];
};

/* Returns to a file the events that other names have taken: they may not stand for it any longer. */
static void give_back(struct replay *replay, const char *key)
{
	const uint32_t groups[] = {streams_group(replay->streams, false, key),
				   streams_group(replay->streams, true, key)};

	for (unsigned i = 0; i < 2; i++)
		if (groups[i] != NONE)
			matcher_give_back(&replay->matcher, groups[i]);
	table_clear(&replay->place_by_name);
}

/* Returns the group of the plan's file that this file is, or stands for. */
static uint32_t group_of_file(struct replay *replay, bool is_sync, const char *key, const char *role, bool *stands_in)
{
	const struct plan_file_found found = plan_files_find(&replay->files, key, role);

	if (found.has_moved)
		give_back(replay, found.key);
	atomic_store(&replay->uncovered[UNCOVERED_SHARED_NAME], replay->files.sharing.count);
	*stands_in = found.stands_in;
	return found.key ? streams_group(replay->streams, is_sync, found.key) : NONE;
}

static bool is_terminal(const char *path)
{
	return strncmp(path, "/dev/pts/", strlen("/dev/pts/")) == 0 ||
	       strncmp(path, "/dev/tty", strlen("/dev/tty")) == 0 || strcmp(path, "/dev/console") == 0;
}

static struct place place_of_path(struct replay *replay, const struct caller *caller, int fd, const char *path,
				  uint32_t kind)
{
	char key[KEY_MAX];
	bool stands_in = false;

	const bool is_file = kind == PATH_KIND_REGULAR || (kind == PATH_KIND_DEVICE && !is_terminal(path));
	if (fd <= STANDARD_FD_MAX && !is_file) {
		kind = PATH_KIND_STD;
		/* The output of a build is not what the incident was about, unless it was recorded as such. */
		snprintf(key, sizeof(key), "std:%d", fd);
	} else {
		key_of_file(kind, path, key);
	}
	uint32_t group = streams_group(replay->streams, caller->is_sync, key);
	if (kind == PATH_KIND_REGULAR || kind == PATH_KIND_DEVICE)
		group = group_of_file(replay, caller->is_sync, key, caller->role, &stands_in);
	return (struct place){.group = group, .path_kind = kind, .stands_in = stands_in};
}

/* Encodes a place for place_by_name, including that the file is not in the plan. */
static uint32_t number_of_place(struct place place)
{
	return place.group == NONE ? place.path_kind : PATH_KIND_COUNT + (place.group << 1 | place.stands_in);
}

static struct place place_of_number(const struct streams *streams, uint32_t number)
{
	if (number < PATH_KIND_COUNT)
		return (struct place){.group = NONE, .path_kind = number};
	const uint32_t group = (number - PATH_KIND_COUNT) >> 1;
	return (struct place){
	    .group = group,
	    .path_kind = streams->groups[group].path_kind,
	    .stands_in = (number - PATH_KIND_COUNT) & 1,
	};
}

/* Returns whether a name that may stand for several files has already stood for another one. */
static bool is_unclear(struct replay *replay, const char *name, const char *path)
{
	const uint32_t file = hash_bytes(path, strlen(path)) & INT32_MAX;
	const uint32_t known = table_get(&replay->file_by_unsure_name, name, strlen(name));

	if (known == NOT_IN_TABLE)
		table_put(&replay->file_by_unsure_name, name, strlen(name), file);
	if (known == NOT_IN_TABLE || known == file)
		return false;
	table_put(&replay->unclear_files, path, strlen(path), file);
	atomic_store(&replay->uncovered[UNCOVERED_UNCLEAR_NAME], replay->unclear_files.count);
	return true;
}

/* Finds the place of a file by its recorded name, which may be incomplete. */
static struct place place_as_recorded(struct replay *replay, const struct caller *caller, int fd, const char *path)
{
	const uint32_t kind = path_kind_of(path);
	char name[RECORDED_NAME_MAX];
	bool is_unsure = recorded_name(path, name);
	struct place place = place_of_path(replay, caller, fd, name, kind);

	while (place.group == NONE && kind == PATH_KIND_REGULAR && replay->streams->has_cut_paths &&
	       recorded_name_shorten(name)) {
		place = place_of_path(replay, caller, fd, name, kind);
		is_unsure = true;
	}
	if (place.group != NONE && is_unsure && is_unclear(replay, name, path))
		return (struct place){.group = NONE, .path_kind = kind};
	return place;
}

/* Caches places by name, because mapping the path to production, computing its keys and looking them up cost more. */
static struct place place_of_file(struct replay *replay, const struct caller *caller, int fd, struct seen *seen,
				  size_t name_bytes)
{
	char path[PATH_MAX];

	seen->before[0] = caller->is_sync ? 's' : 'w';
	seen->before[1] = fd <= STANDARD_FD_MAX ? '0' + fd : '-';
	const size_t bytes = offsetof(struct seen, name) + name_bytes;
	const uint32_t known = table_get(&replay->place_by_name, seen, bytes);
	if (known != NOT_IN_TABLE)
		return place_of_number(replay->streams, known);
	seen->name[name_bytes] = 0;
	path_in_production(seen->name, replay->options, path, sizeof(path));
	const struct place place = place_as_recorded(replay, caller, fd, path);
	if (replay->place_by_name.count >= NAMES_KNOWN_MAX)
		table_clear(&replay->place_by_name);
	table_put(&replay->place_by_name, seen, bytes, number_of_place(place));
	return place;
}

/*
 * Finds the place of a call without a descriptor. Recorded msyncs have no file, so any msync is one of them. Only if
 * there are none is it a sync of its mapping's file, like other syncs.
 */
static struct place place_without_fd(struct replay *replay, const struct caller *caller, uint32_t tid, unsigned op,
				     uint64_t address)
{
	const struct streams *streams = replay->streams;
	struct place place = {
	    .group = op == OP_MSYNC ? streams_group_of_msyncs(streams) : streams_group(streams, true, ""),
	    .path_kind = PATH_KIND_UNKNOWN,
	    .is_unseen = true,
	};
	struct seen seen;

	if (place.group != NONE || op != OP_MSYNC)
		return place;
	const ssize_t bytes = observe_mapped(tid, address, seen.name, sizeof(seen.name) - 1);
	if (bytes > 0)
		return place_of_file(replay, caller, STANDARD_FD_MAX + 1, &seen, bytes);
	const uint32_t without_file = streams_group(streams, true, "");
	if (without_file != NONE && streams->groups[without_file].all_flags & EVENT_FLAG_DERIVED)
		place.group = without_file;
	return place;
}

static struct place place_of_fd(struct replay *replay, const struct seccomp_notif *notif, const struct caller *caller,
				uint64_t now_ns)
{
	const int fd = notif->data.args[0];
	struct seen seen;
	const ssize_t bytes = links_read(&replay->links, notif->pid, fd, now_ns, seen.name, sizeof(seen.name) - 1);

	if (bytes > 0)
		return place_of_file(replay, caller, fd, &seen, bytes);
	/* ENOENT means that the descriptor is not open: the call fails in the kernel. */
	return (struct place){
	    .group = NONE,
	    .path_kind = bytes < 0 && errno == ENOENT ? NONE : PATH_KIND_UNKNOWN,
	    .is_unseen = bytes >= 0 || errno != ENOENT,
	};
}

static struct place find_place(struct replay *replay, const struct seccomp_notif *notif, const char *role, unsigned op,
			       uint64_t now_ns)
{
	const struct caller caller = {op_is_sync(op), role};
	const bool has_fd = op_has_fd(op);
	struct place place = has_fd ? place_of_fd(replay, notif, &caller, now_ns)
				    : place_without_fd(replay, &caller, notif->pid, op, notif->data.args[0]);

	if (place.group != NONE || !place.is_unseen)
		return place;
	place.group = streams_group_of_role(replay->streams, caller.is_sync, has_fd, role);
	place.is_guessed = true;
	return place;
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
 * Returns whether the call is to be made short. A call that the runner makes must not be made again: the kernel would
 * do so if signals end waits, and the guardian would when it lets calls pass. An error takes precedence, because
 * nothing is written then.
 */
static bool is_made_short(const struct replay *replay, const struct match *match)
{
	const struct features *features = &replay->calibration->features;

	return match->is_short && !match->error && features->wait_killable && features->pidfd_getfd &&
	       !replay->options->pass_on_death;
}

/*
 * Returns whether the call is on a standard descriptor and to nothing that the incident names: to a terminal, a pipe,
 * or the log of this run. If the incident itself used such descriptors for files, they are like any other.
 */
static bool is_output(struct replay *replay, const struct seccomp_notif *notif, const char *role, unsigned op,
		      uint64_t now_ns)
{
	const struct caller caller = {op_is_sync(op), role};
	const uint32_t fd = notif->data.args[0];

	if (fd > STANDARD_FD_MAX || !op_has_fd(op) || replay->has_standard_fds)
		return false;
	return place_of_fd(replay, notif, &caller, now_ns).group == NONE;
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
		record->how = match->error ? HOW_ERROR_INJECTED : HOW_BELOW_THRESHOLD;
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
	const struct place place = find_place(replay, notif, thread->role, record->op, record->received_ns);

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
	if (go_on(replay, thread, &notif->data, call)) {
		thread->call = call;
		thread->call_id = call->id;
		return VERDICT_HOLD;
	}
	if (!replay->calibration->features.wait_killable && was_over(replay, thread, &notif->data, call))
		return VERDICT_PASS;
	call->is_output = is_output(replay, notif, thread->role, op, record->received_ns);
	if (call->is_output)
		return VERDICT_PASS;
	record->pid = thread->process;
	record->tid = notif->pid;
	record->op = op;
	record->size = bytes_asked(notif, op);
	call->is_recorded = true;
	const struct match match = match_of(replay, notif, thread, record);
	const enum verdict verdict = act(replay, &match, call);
	thread->data = notif->data;
	thread->call = verdict == VERDICT_HOLD ? call : NULL;
	thread->call_id = call->id;
	memcpy(call->arguments, notif->data.args, sizeof(call->arguments));
	return verdict;
}

void replay_pass(struct replay *replay, bool is_passing)
{
	atomic_store(&replay->is_passing, is_passing);
	timers_hurry(&replay->server->timers, is_passing);
}
