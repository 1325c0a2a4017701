/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Assigns the work of a thread to the trace (W3C traceparent) of the HTTP/1 request that the thread has read. This
 * applies to the processes that the agent selected.
 *
 * This is correct only for a thread that serves one request at a time, and only until the thread has answered. In all
 * other cases, the work has no owner, because a wrong owner would be worse:
 *
 * proof: a process of several threads first has to answer some requests, each in the thread that has read the request
 * misfit: a request is read from another connection before the previous one is answered, or another thread answers it
 * epoll: a thread that waits for many connections is an event loop, and never gets a context from a request again
 * answer: work after the answer has no owner
 * children: the work of a child process belongs to the request until the request is answered. It ends earlier if the
 *   child reads from a pipe or socket that it was given: the child may then work for many requests
 */
#ifndef KREPLAY_HTTP_BPF_H
#define KREPLAY_HTTP_BPF_H

#include "context.bpf.h"
#include "file.bpf.h"
#include "http_header.bpf.h"
#include "http_process.bpf.h"

static __always_inline bool is_read(__u32 id)
{
	return id == NR_READ || id == NR_RECVFROM || id == NR_RECVMSG || id == NR_READV;
}

static __always_inline bool is_epoll(__u32 id)
{
	return id == NR_EPOLL_WAIT || id == NR_EPOLL_PWAIT || id == NR_EPOLL_PWAIT2;
}

static __always_inline bool is_answer(__u32 id)
{
	return id == NR_WRITE || id == NR_WRITEV || id == NR_SENDTO || id == NR_SENDMSG || id == NR_SENDMMSG ||
	       id == NR_SENDFILE;
}

/* Returns whether the call may answer a request, wait for many connections, or close a connection. */
static __always_inline bool is_answer_or_wait(__u32 id)
{
	return is_answer(id) || is_epoll(id) || id == NR_CLOSE;
}

#define REQUEST_BYTES_MIN 60
#define PROOFS_MIN 16
/*
 * Number of misfits after which the requests of a process no longer set the context of any thread. A misfit is a
 * request that was not served by a single thread, one request after the other.
 */
#define HTTP_MISFITS_MAX 3

/*
 * Connections with a request in progress: maps thread group and descriptor to the thread that has read the request, and
 * to the request's context. Each thread has at most one entry, which is deleted when the thread exits. This is not an
 * LRU map: if an entry were dropped, the request would stay with its thread after another thread has answered it.
 */
struct http_connection {
	__u64 context_id;
	__u64 process_start_ns;
	__u32 tid;
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct http_connection);
} http_connections SEC(".maps");

static __always_inline __u64 connection_key(struct task_struct *task, int fd)
{
	return (__u64)task->tgid << 32 | (__u32)fd;
}

static __always_inline void forget_request(struct task_state *state)
{
	if (holds_request(state))
		set_context(state, 0, bpf_ktime_get_boot_ns());
}

/*
 * Returns whether the thread has a label of its own, which takes precedence over a request. A label that was set during
 * the previous request does not count, because it ended with that request.
 */
static __always_inline bool has_label(struct task_state *state)
{
	return is_own_context(state->context_id, state->context_flags) && !(state->context_flags & CONTEXT_HTTP) &&
	       !state->http_labelled;
}

static __always_inline void begin_request(struct task_struct *task, struct task_state *state,
					  struct request_scratch *request)
{
	__u32 zero = 0, at = request->value_at;
	struct context_scratch *scratch = bpf_map_lookup_elem(&context_scratch, &zero);
	__u64 now_ns = bpf_ktime_get_boot_ns();

	if (!scratch || at >= WINDOW_SIZE)
		return;
	bpf_probe_read_kernel(scratch->text, TRACEPARENT_SIZE, &request->text[at]);
	set_context(state, define_context(task, scratch, TRACEPARENT_SIZE, SCOPE_HTTP, 0, now_ns), now_ns);
	state->context_flags = CONTEXT_HTTP;
}

/*
 * Returns the address at which the call stored the data that it read, and limits `size` to the bytes available there.
 */
static __always_inline const void *read_buffer(__u32 id, __u64 argument, __u64 *size)
{
	struct {
		__u64 base, size;
	} part = {};
	__u64 vector = argument;

	if (id == NR_READ || id == NR_RECVFROM)
		return (const void *)argument;
	/* struct msghdr, include/linux/socket.h, contains the name, its size, then the vector. */
	if (id == NR_RECVMSG && bpf_probe_read_user(&vector, sizeof(vector), (void *)(argument + 16)))
		return NULL;
	if (bpf_probe_read_user(&part, sizeof(part), (void *)vector))
		return NULL;
	if (part.size < *size)
		*size = part.size;
	return (const void *)part.base;
}

static __always_inline __u32 type_of(struct file *file)
{
	return file ? BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT : 0;
}

/*
 * Returns whether another request may arrive through the file: this holds for any socket, and for a pipe that was
 * passed to the process. A pipe that the process created has the process's own credentials, which no other process has:
 * copy_creds(), kernel/cred.c.
 */
static __always_inline bool may_bring_work(struct task_struct *task, struct file *file)
{
	__u32 type = type_of(file);

	return type == S_IFSOCK ||
	       (type == S_IFIFO && BPF_CORE_READ(file, f_cred) != LOAD_POINTER(struct task_struct, task, real_cred));
}

static __always_inline bool is_request_child(struct task_state *state)
{
	return state->context_flags & CONTEXT_HTTP && state->context_flags & CONTEXT_INHERITED_PROCESS;
}

/* Returns whether the process is known to serve each request with a single thread, one request after the other. */
static __always_inline bool is_proven(struct task_struct *task, struct task_state *leader)
{
	return leader->http_proofs >= PROOFS_MIN || LOAD_POINTER(struct task_struct, task, signal)->nr_threads == 1;
}

static __always_inline void count_misfit(struct task_state *leader)
{
	if (leader->http_misfits < HTTP_MISFITS_MAX)
		leader->http_misfits++;
	if (leader->http_misfits >= HTTP_MISFITS_MAX)
		leader->http_given_up = 1;
	leader->http_proofs = 0;
}

/*
 * Deletes the connection of the thread's last request, unless another thread has read a request from that connection in
 * the meantime.
 */
static __always_inline void forget_connection(struct task_struct *task, struct task_state *state)
{
	__u64 key = connection_key(task, state->http_fd);
	struct http_connection *connection = bpf_map_lookup_elem(&http_connections, &key);

	if (connection && connection->tid == task->pid)
		bpf_map_delete_elem(&http_connections, &key);
}

static __always_inline void keep_connection(struct task_struct *task, struct task_state *state)
{
	struct http_connection connection = {};
	__u64 key = connection_key(task, state->http_fd);

	connection.tid = task->pid;
	connection.process_start_ns = leader_of(task)->start_boottime;
	connection.context_id = holds_request(state) ? state->context_id : 0;
	if (!bpf_map_update_elem(&http_connections, &key, &connection, BPF_ANY) || !connection.context_id)
		return;
	/* The map is full: an answer by another thread would not be noticed, so the request gets no owner. */
	count_loss(CONTEXT_DEFINITION, LOSS_NO_MEMORY);
	forget_request(state);
}

/*
 * Handles a call that is_read() accepts and that has returned `result` bytes; `argument` is the call's second argument.
 *
 * The programs of all calls call this function and http_answer_or_wait(), because separate programs would cost each
 * call 70 ns more.
 */
__noinline int http_read(__u32 id, int fd, __u64 argument, __s64 result)
{
	struct task_state *state, *leader;
	struct request_scratch *request;
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 size = result, first = 0;
	__u32 zero = 0;
	const void *text;

	if (task->thread_info.status & TS_COMPAT)
		return 0;
	if (http_children_used) {
		state = state_of(task);
		if (state && is_request_child(state) && may_bring_work(task, file_of(task, fd)))
			set_context(state, 0, 0);
	}
	if (result < REQUEST_BYTES_MIN || !is_watched(task))
		return 0;
	text = read_buffer(id, argument, &size);
	if (!text || bpf_probe_read_user(&first, sizeof(first), text) || !is_method(first) ||
	    type_of(file_of(task, fd)) != S_IFSOCK)
		return 0;
	state = new_state_of(task);
	leader = new_state_of(task->group_leader);
	request = bpf_map_lookup_elem(&http_scratch, &zero);
	if (!state || !leader || !request)
		return 0;
	if (!leader->http_serves)
		leader->http_serves = 1;
	forget_request(state);
	if (state->http_event_loop || leader->http_given_up)
		return 0;
	if (state->http_open && state->http_fd != fd) {
		count_misfit(leader);
		forget_connection(task, state);
	} else if (!state->http_open && !has_label(state)) {
		if (state->context_flags & CONTEXT_INHERITED_THREAD || state->http_labelled)
			/*
			 * Drops a context that belongs to the thread that created this thread, or to the previous
			 * request.
			 */
			set_context(state, 0, bpf_ktime_get_boot_ns());
		state->http_labelled = 0;
		request->size = size < WINDOW_SIZE ? size : WINDOW_SIZE;
		size = request->size;
		barrier_var(size);
		if (is_proven(task, leader) && size <= WINDOW_SIZE && !bpf_probe_read_user(request->text, size, text) &&
		    find_traceparent(request))
			begin_request(task, state, request);
	}
	/*
	 * Data that looks like another request on the same connection does not count as a misfit, because it may be the
	 * rest of the first request.
	 */
	state->http_fd = fd;
	state->http_open = 1;
	keep_connection(task, state);
	return 0;
}

static __always_inline void enter_event_loop(struct task_struct *task)
{
	struct task_state *state = is_watched(task) ? new_state_of(task) : NULL;

	if (!state)
		return;
	forget_request(state);
	state->http_event_loop = 1;
}

/* Ends a request of this thread, which now answers the request or closes its connection. */
static __always_inline void end_request(struct task_struct *task, struct task_state *state, bool is_answered)
{
	struct task_state *leader = leader_state_of(task, state);
	__u64 key = connection_key(task, state->http_fd);

	forget_request(state);
	state->http_open = 0;
	bpf_map_delete_elem(&http_connections, &key);
	if (is_answered && leader && leader->http_proofs < PROOFS_MIN)
		leader->http_proofs++;
}

/*
 * Ends a request that another thread has read, if the current thread answers it or closes its connection. This is a
 * misfit, because the other thread has begun other work at an unknown time.
 */
static __always_inline void end_connection(struct task_struct *task, struct task_state *state, int fd, bool is_answered)
{
	struct task_state *leader = leader_state_of(task, state);
	__u64 key = connection_key(task, fd);
	struct http_connection *connection;

	if (!leader || !leader->http_serves)
		return;
	connection = bpf_map_lookup_elem(&http_connections, &key);
	if (!connection)
		return;
	if (connection->process_start_ns == leader_of(task)->start_boottime && connection->tid != task->pid) {
		if (connection->context_id)
			end_context(connection->context_id, bpf_ktime_get_boot_ns());
		count_misfit(leader);
		if (is_answered)
			leader->http_given_up = 1;
	}
	bpf_map_delete_elem(&http_connections, &key);
}

/*
 * Handles a call that is_answer_or_wait() accepts. Runs after the call is recorded, because the answer belongs to the
 * request.
 */
__noinline int http_answer_or_wait(__u32 id, int fd)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state;

	if (task->thread_info.status & TS_COMPAT)
		return 0;
	if (is_epoll(id)) {
		enter_event_loop(task);
		return 0;
	}
	state = state_of(task);
	if (state && state->http_open && state->http_fd == fd)
		end_request(task, state, id != NR_CLOSE);
	else
		end_connection(task, state, fd, id != NR_CLOSE);
	return 0;
}

/*
 * Handles a thread that exits during a request. This program may run before or after task_exit, so it changes only
 * connections, which task_exit does not use.
 */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(http_task_exit, struct task_struct *task)
{
	struct task_state *state = state_of(task);

	if (state && state->http_open)
		forget_connection(task, state);
	return 0;
}

#endif
