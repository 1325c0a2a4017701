/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The W3C traceparent of HTTP/1 requests, of processes that the agent was told of: what a thread does after it has read
 * a request is of that request's trace.
 *
 * Only true of a thread that serves one request at a time, and until it has answered. No owner is better than a wrong
 * one: overlap   a request is read from another connection while the one before has no answer yet: nobody's epoll     a
 * thread that waits for many connections is an event loop, and never looked at again answer    what comes behind it is
 * the request's only until the thread waits or reads, and not at all when more than the request was in the buffer
 */
#include "context.bpf.h"

#define REQUEST_BYTES_MIN 60
#define WINDOW_SIZE 2048
#define READ_STEP 8
#define TRACEPARENT_SIZE 55
/* A process whose threads have served so many requests at once is none of a thread each. */
#define OVERLAPS_MAX 3

/* Processes that are looked at: thread group -> CLOCK_BOOTTIME that it had started by, or it is another one. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} http_processes SEC(".maps");

struct request_scratch {
	char text[WINDOW_SIZE + TRACEPARENT_SIZE + 9];
	__u32 size;
	/* Where the header's value is. */
	__u32 value_at;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct request_scratch);
} http_scratch SEC(".maps");

/* As little-endian numbers, in lower case. */
#define LOWER_CASE 0x2020202020202020ull
#define TRACEPAR 0x7261706563617274ull
#define RACEPARE 0x6572617065636172ull
#define ACEPAREN 0x6e65726170656361ull
#define CEPARENT 0x746e657261706563ull
#define CARRIAGE_RETURNS 0x0d0d0d0d0d0d0d0dull
#define LOW_BITS 0x0101010101010101ull
#define HIGH_BITS 0x8080808080808080ull
/* "\r\n\r\n" */
#define HEADERS_END 0x0a0d0a0du

static __always_inline bool is_method(__u64 text)
{
	__u32 first = text;

	return first == 0x20544547 /* "GET " */ || first == 0x54534f50 /* "POST" */ ||
	       first == 0x20545550 /* "PUT " */ || first == 0x44414548 /* "HEAD" */ ||
	       first == 0x454c4544 /* "DELE" */ || first == 0x43544150 /* "PATC" */ || first == 0x4954504f /* "OPTI" */;
}

/* Whether the header's name is at this place of the request, and where its value begins. */
__noinline int is_traceparent(__u32 at)
{
	__u32 zero = 0;
	struct request_scratch *scratch = bpf_map_lookup_elem(&http_scratch, &zero);
	char *text;

	if (!scratch || !at)
		return 0;
	/* The line feed before it. */
	at = (at - 1) & (WINDOW_SIZE - 1);
	barrier_var(at);
	text = &scratch->text[at & (WINDOW_SIZE - 1)];
	if (text[0] != '\n' || (*(__u64 *)&text[1] | LOWER_CASE) != TRACEPAR || (text[9] | 0x20) != 'e' ||
	    (text[10] | 0x20) != 'n' || (text[11] | 0x20) != 't' || text[12] != ':')
		return 0;
	scratch->value_at = at + 13 + (text[13] == ' ');
	return 1;
}

/* Whether the headers end in one of the first four places. */
static __always_inline bool ends_headers(__u64 text)
{
	__u64 returns = text ^ CARRIAGE_RETURNS;

	/* Mostly there is none: a byte of zero is found by its borrow. */
	if (!((returns - LOW_BITS) & ~returns & HIGH_BITS))
		return false;
	return (__u32)text == HEADERS_END || (__u32)(text >> 8) == HEADERS_END || (__u32)(text >> 16) == HEADERS_END ||
	       (__u32)(text >> 24) == HEADERS_END;
}

/* Every fourth place is enough: one of four pieces of the name begins there. */
static __always_inline bool find_traceparent(struct request_scratch *scratch)
{
	scratch->value_at = 0;
	for (__u32 at = 0; at < WINDOW_SIZE - 16; at += 4) {
		__u64 text = *(__u64 *)&scratch->text[at], piece = text | LOWER_CASE;
		__u32 name_at;

		if (at >= scratch->size || ends_headers(text))
			return false;
		if (piece == TRACEPAR)
			name_at = at;
		else if (piece == RACEPARE)
			name_at = at - 1;
		else if (piece == ACEPAREN)
			name_at = at - 2;
		else if (piece == CEPARENT)
			name_at = at - 3;
		else
			continue;
		if (is_traceparent(name_at))
			return scratch->value_at + TRACEPARENT_SIZE <= scratch->size;
	}
	return false;
}

static __always_inline bool holds_request(struct task_state *state)
{
	return state->context_id && state->context_flags & CONTEXT_HTTP;
}

static __always_inline void forget_request(struct task_state *state)
{
	if (holds_request(state))
		set_context(state, 0, bpf_ktime_get_boot_ns());
}

/* A marker of the thread's own goes before what it reads. */
static __always_inline bool has_marker(struct task_state *state)
{
	return is_own_context(state->context_id, state->context_flags) && !(state->context_flags & CONTEXT_HTTP);
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

/* Where the call put what it read, and how much of that lies there. */
static __always_inline const void *read_buffer(struct pt_regs *regs, __u32 id, __u64 *size)
{
	struct {
		__u64 base, size;
	} part = {};
	__u64 vector = regs->si;

	if (id == NR_READ || id == NR_RECVFROM)
		return (const void *)regs->si;
	/* struct msghdr, include/linux/socket.h: name, its size, then the vector. */
	if (id == NR_RECVMSG && bpf_probe_read_user(&vector, sizeof(vector), (void *)(regs->si + 16)))
		return NULL;
	if (bpf_probe_read_user(&part, sizeof(part), (void *)vector))
		return NULL;
	if (part.size < *size)
		*size = part.size;
	return (const void *)part.base;
}

static __always_inline bool is_watched(struct task_struct *task)
{
	__u32 tgid = task->tgid;
	__u64 *started_ns = bpf_map_lookup_elem(&http_processes, &tgid);

	return started_ns && task->group_leader->start_boottime <= *started_ns;
}

static __always_inline bool is_socket(struct task_struct *task, int fd)
{
	struct fdtable *table = task->files->fdt;
	struct file *file = NULL;

	if ((__u32)fd < table->max_fds)
		bpf_probe_read_kernel(&file, sizeof(file), &table->fd[(__u32)fd]);
	return file && (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) == S_IFSOCK;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(http_read_exit, struct pt_regs *regs, long result)
{
	__u32 id = regs->orig_ax, zero = 0;
	struct task_state *state, *leader;
	struct request_scratch *request;
	struct task_struct *task;
	__u64 size = result, first = 0;
	const void *text;
	int fd = regs->di;

	if (result < REQUEST_BYTES_MIN || (id != NR_READ && id != NR_RECVFROM && id != NR_RECVMSG && id != NR_READV))
		return 0;
	task = bpf_get_current_task_btf();
	if (task->thread_info.status & TS_COMPAT || !is_watched(task))
		return 0;
	text = read_buffer(regs, id, &size);
	if (!text || bpf_probe_read_user(&first, sizeof(first), text) || !is_method(first) || !is_socket(task, fd))
		return 0;
	state = new_state_of(task);
	leader = new_state_of(task->group_leader);
	request = bpf_map_lookup_elem(&http_scratch, &zero);
	if (!state || !leader || !request || has_marker(state))
		return 0;
	forget_request(state);
	if (state->http_event_loop || leader->http_overlaps >= OVERLAPS_MAX)
		return 0;
	if (state->http_open) {
		/* Another one's, or a body that looks like one: this thread does not answer one after the other. */
		if (state->http_fd != fd)
			leader->http_overlaps++;
		state->http_fd = fd;
		return 0;
	}
	if (state->context_flags & CONTEXT_INHERITED_THREAD)
		/* Of the thread that made this one. */
		set_context(state, 0, 0);
	state->http_fd = fd;
	state->http_open = 1;
	request->size = size < WINDOW_SIZE ? size : WINDOW_SIZE;
	size = request->size;
	barrier_var(size);
	if (size <= WINDOW_SIZE && !bpf_probe_read_user(request->text, size, text) && find_traceparent(request))
		begin_request(task, state, request);
	return 0;
}

static __always_inline bool is_answer(__u32 id)
{
	return id == NR_WRITE || id == NR_WRITEV || id == NR_SENDTO || id == NR_SENDMSG || id == NR_SENDMMSG ||
	       id == NR_SENDFILE;
}

static __always_inline void enter_event_loop(struct task_struct *task)
{
	struct task_state *state = is_watched(task) ? new_state_of(task) : NULL;

	if (!state)
		return;
	forget_request(state);
	state->http_event_loop = 1;
}

/* Calls that answer a request, and those that end what it said. Behind write_enter: the answer itself is the request's.
 */
SEC("tp_btf/sys_enter")
int BPF_PROG(http_enter, struct pt_regs *regs, long id)
{
	bool is_epoll = id == NR_EPOLL_WAIT || id == NR_EPOLL_PWAIT || id == NR_EPOLL_PWAIT2;
	struct task_struct *task;
	struct task_state *state;

	if (!is_epoll && !is_answer(id) && id != NR_CLOSE)
		return 0;
	task = bpf_get_current_task_btf();
	if (task->thread_info.status & TS_COMPAT)
		return 0;
	if (is_epoll) {
		enter_event_loop(task);
		return 0;
	}
	state = state_of(task);
	if (state && state->http_open && state->http_fd == (int)regs->di) {
		forget_request(state);
		state->http_open = 0;
	}
	return 0;
}

/* A forked process serves as the one does that it comes from. */
SEC("tp_btf/task_newtask")
int BPF_PROG(http_process_new, struct task_struct *child, unsigned long clone_flags)
{
	__u64 started_ns = child->start_boottime;
	__u32 tgid = child->tgid;

	if (!(clone_flags & CLONE_THREAD) && is_watched(bpf_get_current_task_btf()))
		bpf_map_update_elem(&http_processes, &tgid, &started_ns, BPF_ANY);
	return 0;
}

/* What it runs from now on the agent has to name first. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(http_process_exec, struct task_struct *task)
{
	__u32 tgid = task->tgid;

	bpf_map_delete_elem(&http_processes, &tgid);
	return 0;
}
