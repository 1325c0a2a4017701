/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The write family, one record at the return of the call.
 *
 * tp_btf/sys_enter and sys_exit instead of the classic tracepoint of each call: measured at 221 ns a write against
 * 349 ns, because registers are read directly and no arguments are copied.
 */
#include "file.bpf.h"
#include "filter.bpf.h"
#include "http.bpf.h"
#include "marker.bpf.h"
#include "owner.bpf.h"
#include "process.bpf.h"

#define IOV_MAX 1024
#define IOV_STEP 8

struct user_iovec {
	__u64 base, size;
};

static __always_inline bool is_write(__u32 id)
{
	return id == NR_WRITE || id == NR_PWRITE64 || id == NR_WRITEV || id == NR_PWRITEV || id == NR_PWRITEV2;
}

/* Not inlined: the verifier then walks its turns once, not once for every path to the call. */
__noinline __u64 iovec_bytes(__u64 iov, __u64 count)
{
	struct user_iovec part[IOV_STEP];
	__u64 sum = 0;

	if (count > IOV_MAX)
		return UNKNOWN_U64;
	for (__u32 first = 0; first < IOV_MAX && first < count; first += IOV_STEP) {
		__u64 size = (count - first) * sizeof(*part);

		if (size > sizeof(part))
			size = sizeof(part);
		/* Clang counts in another register than the one that older verifiers see compared. */
		barrier_var(size);
		if (size > sizeof(part))
			return UNKNOWN_U64;
		__builtin_memset(part, 0, sizeof(part));
		if (bpf_probe_read_user(part, size, (void *)(iov + first * sizeof(*part))))
			return UNKNOWN_U64;
		for (int i = 0; i < IOV_STEP; i++)
			sum += part[i].size;
	}
	return sum;
}

static __always_inline bool is_marker_size(__u64 size)
{
	return marker_layer && size >= MARKER_SIZE_MIN && size < MARKER_SIZE;
}

/* A marker is the whole text of one write to /dev/null, or the first part of a vector. */
static __always_inline bool is_marker(struct task_state *state, const void *text, __u64 size)
{
	__u64 magic = 0;

	if (!state->file_is_dev_null)
		return false;
	if (!bpf_probe_read_user(&magic, sizeof(magic), text))
		return magic == MARKER_MAGIC;
	/* A page that is not there yet, and that /dev/null never asks for: it may be one. */
	count_loss(CONTEXT_DEFINITION, LOSS_MARKER_UNREADABLE);
	set_context(state, CONTEXT_LOST, state->start_ns);
	return false;
}

static __always_inline void end_write(long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state = state_of(task);
	struct sys_write *event;
	struct filter_settings *settings;
	__u64 start_ns, now_ns;

	if (!state || !state->start_ns)
		return;
	start_ns = state->start_ns;
	state->start_ns = 0;
	now_ns = bpf_ktime_get_boot_ns();
	settings = filter();
	if (settings && now_ns - start_ns < settings->min_duration_ns)
		return;

	event = reserve(events, EVENT_SYS_WRITE, struct sys_write);
	if (!event)
		return;
	event->event_type = EVENT_SYS_WRITE;
	event->cpu = bpf_get_smp_processor_id();
	event->flags = state->write_flags;
	event->timestamp_ns = start_ns;
	event->duration_ns = now_ns - start_ns;
	event->context_id = state->write_context_id;
	event->process_id = state->process_id;
	event->pid = task->tgid;
	event->tid = task->pid;
	copy_comm(event->comm, task);
	event->result = result;
	event->file_id = state->file_id;
	event->bytes_requested = state->bytes_requested;
	event->fd = state->fd;
	event->syscall = state->syscall;
	submit(event);
}

static __always_inline void begin_write(struct pt_regs *regs, long id)
{
	struct user_iovec first = {};
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state;
	struct filter_settings *settings;
	struct owner owner = {};
	const void *text;
	bool is_wanted;
	__u64 size;

	/* A 32-bit program's numbers mean other calls. */
	if (task->tgid == agent_tgid || task->thread_info.status & TS_COMPAT)
		return;
	state = new_state_of(task);
	if (!state) {
		count_loss(EVENT_SYS_WRITE, LOSS_NO_MEMORY);
		return;
	}

	/* The call before has ended, and the kernel did not run write_exit: see forget_unended(). */
	if (state->start_ns)
		count_loss(EVENT_SYS_WRITE, LOSS_END_MISSED);
	text = (const void *)regs->si;
	size = regs->dx;
	state->start_ns = bpf_ktime_get_boot_ns();
	if (id == NR_WRITE || id == NR_PWRITE64) {
		state->bytes_requested = size;
	} else {
		state->bytes_requested = iovec_bytes((__u64)text, size);
		bpf_probe_read_user(&first, sizeof(first), text);
		text = (const void *)first.base;
		size = first.size;
	}
	settings = filter();
	is_wanted = settings && has_type(settings, EVENT_SYS_WRITE) && is_wanted_task(settings, task);
	if (is_wanted) {
		/* First: what a program was started with may be its context. */
		process_id_of(task, state, state->start_ns);
		owner = owner_of(task, state);
		is_wanted = is_wanted_owner(settings, task, owner.context_id);
	}
	/* A marker counts for others too: what it labels may be wanted. */
	if (is_wanted || is_marker_size(size))
		look_up_file(file_of(task, regs->di), state, state->start_ns);
	if (is_marker_size(size) && is_marker(state, text, size)) {
		/* Clang would leave out later masks for what it knows of the size; verifiers before 6.3 have forgotten
		 * it. */
		barrier_var(size);
		apply_marker(task, state, text, size, state->start_ns);
		is_wanted = false;
	}
	if (!is_wanted) {
		state->start_ns = 0;
		return;
	}
	state->write_context_id = owner.context_id;
	state->write_flags = owner.flags;
	state->fd = regs->di;
	state->syscall = id;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(write_exit, struct pt_regs *regs, long result)
{
	__u32 id = regs->orig_ax;

	if (is_write(id))
		end_write(result);
	else if (http_layer && is_read(id) && result > 0)
		http_read(id, regs->di, regs->si, result);
	return 0;
}

/* Behind write_exit, and so attached after it: no call that is seen to begin must miss its end. */
SEC("tp_btf/sys_enter")
int BPF_PROG(write_enter, struct pt_regs *regs, long id)
{
	if (is_write(id))
		begin_write(regs, id);
	if (http_layer && is_answer_or_wait(id))
		http_answer_or_wait(id, regs->di);
	return 0;
}
