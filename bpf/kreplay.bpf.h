/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Code that all hooks share: the state of a task, ids, loss counters, and reserve() and submit(), which emit a record.
 */
#ifndef KREPLAY_BPF_H
#define KREPLAY_BPF_H

#include "kernel_compat.bpf.h"
#include "gen/events.h"

/* Value of an optional_u64 field that is not known. */
#define UNKNOWN_U64 (~0ull)

/* Thread group id of the agent, which sets this variable before load. The agent's own calls are not recorded. */
const volatile __u32 agent_tgid = 0;

/* The attribution layers that are enabled: see agent/capture/layers.ts. */
const volatile bool marker_layer = true;
const volatile bool environment_layer = true;
const volatile bool dirty_page_layer = true;
const volatile bool block_cgroup_layer = true;
const volatile bool http_layer = false;
const volatile bool otel_layer = false;

/*
 * Set to 1 when the first process-wide context is defined. Until then, no program needs to read the state of a group
 * leader.
 */
__u32 process_contexts_used = 0;

/* State kept per task; the kernel frees it with the task. */
struct task_state {
	/* Context of the thread; on the group leader, also the context of the whole process. */
	__u64 context_id;
	__u64 process_context_id;
	__u32 context_flags;
	__u32 process_context_flags;

	/*
	 * Ids of the current process and program definitions. Each definition describes one exec, given by its
	 * self_exec_id; a process definition also describes the group leader's cgroups. Other threads have copies of
	 * their leader's values. If `process_id` is 0, `process_defined_ns` is the time at which the definition was
	 * refused.
	 */
	__u64 process_id;
	__u64 process_defined_ns;
	__u64 process_cgroups;
	__u64 program_id;
	__u32 process_exec_id;
	__u32 program_exec_id;

	/* The recorded call in progress, see call.bpf.h; start_ns is 0 if no call is in progress. */
	__u64 start_ns;
	__u64 bytes_requested;
	__u64 call_context_id;
	__u32 call_flags;
	__u32 syscall;
	__s32 fd;
	/* EVENT_* value, possibly combined with CALL_UNDESCRIBED. */
	__u16 call_type;
	/*
	 * Used on the group leader: whether the process reads HTTP requests. The flag is a whole byte, because any
	 * thread of the process may set it, and storing a bit field also stores its neighbours.
	 */
	__u8 http_serves;
	/* Set if the program at sys_enter ran for the write in progress. Used only if `programs_are_preempted`. */
	__u8 write_seen;

	/* Descriptor of the connection whose request is in progress, see http.bpf.h. */
	__s32 http_fd;
	__u8 http_open : 1;
	__u8 http_event_loop : 1;
	/* The thread's label was set while a request was in progress. */
	__u8 http_labelled : 1;
	/*
	 * Used on the group leader, see http.bpf.h. `http_misfits` counts requests that were not served one after the
	 * other by a single thread, up to HTTP_MISFITS_MAX. `http_proofs` counts requests that were served in that way
	 * since the last misfit, up to PROOFS_MIN.
	 */
	__u8 http_misfits;
	__u8 http_proofs;
	/*
	 * Used on the group leader: HTTP_MISFITS_MAX was reached, or a thread answered another thread's request. The
	 * flag is separate from `http_misfits`, because threads that count misfits at the same time may overwrite that
	 * number. Only an exec clears the flag.
	 */
	__u8 http_given_up;

	/* Used on a journal's thread: key of the transaction that the thread commits, see journal.bpf.h. */
	__u64 journal_transaction;

	/* Cache of the last call's file: most tasks write to one file at a time. */
	__u64 file_id;
	__u64 file_defined_ns;
	struct file_key {
		__u64 mount, dentry, parent, name_hash, inode;
	} file_key;
};

/*
 * The BPF allocator of Linux 6.6 and later initially has four objects of up to 256 bytes ready on each CPU, but only
 * one larger object. The kernel adds 80 bytes to each object.
 */
_Static_assert(sizeof(struct task_state) + 80 <= 256, "task_state");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} task_states SEC(".maps");

/* The agent adds up the counters of all CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct loss_counters);
} losses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} next_ids SEC(".maps");

#define EVENT_RINGS_MAX 256
/* Maximum number of CPUs that a kernel can be built for: CONFIG_NR_CPUS. A power of two. */
#define CPUS_MAX 8192

/* Index of each CPU's ring in `events`. The agent sets this variable before load: agent/capture/event_rings.ts. */
const volatile __u8 ring_of_cpu[CPUS_MAX] = {};

/* Only describes the rings in `events`; the agent creates them with sizes of its own. */
struct event_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/*
 * Rings for events, each for the CPUs that share a last-level cache: producers of one ring wait for each other's
 * reservations, inside the traced calls.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, EVENT_RINGS_MAX);
	__type(key, __u32);
	__array(values, struct event_ring);
} events SEC(".maps");

#define DEFINITIONS_BYTES (8 << 20)
#define FILE_DEFINITIONS_BYTES (8 << 20)

/* Definitions of programs, processes, contexts and cgroups. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, DEFINITIONS_BYTES);
} definitions SEC(".maps");

/* Definitions of files have a ring of their own, so that a flood of files leaves events their owners. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, FILE_DEFINITIONS_BYTES);
} file_definitions SEC(".maps");

static __always_inline void count_loss(__u32 record_type, __u32 cause)
{
	__u32 zero = 0;
	struct loss_counters *counters = bpf_map_lookup_elem(&losses, &zero);

	if (counters && record_type < LOSS_TYPES_MAX && cause < LOSS_CAUSES_MAX)
		__sync_fetch_and_add(&counters->lost[record_type][cause], 1);
}

/* Only wakes the agent, and never holds a record. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} wakeups SEC(".maps");

/*
 * What the agent wants to be woken for while it sleeps, AGENT_*. The variable has a section and thus a map of its own,
 * because the agent writes the whole value of a map.
 */
#define AGENT_AWAKE 0
#define AGENT_WANTS_FIRST_RECORD 1
#define AGENT_WANTS_FULL_RING 2
__u64 agent_sleep SEC(".data.agent_sleep") = AGENT_AWAKE;

/* A sleeping agent is woken when an event ring is filled to an eighth of its size. */
#define WAKE_SHARE 8
/* A share of a definition ring far below what one user may take: PAIR_BYTES_MAX of budget.bpf.h. */
#define DEFINITIONS_WAKE_SHARE 32
/* Mean number of events between two queries of a ring's fill level; a power of two. */
#define EVENTS_PER_QUERY 64

/* Wakes the agent, unless another CPU has woken it: `wanted` is what the agent wanted to be woken for. */
static __noinline int wake_agent(__u64 wanted)
{
	void *record;

	if (__sync_val_compare_and_swap(&agent_sleep, wanted, AGENT_AWAKE) != wanted)
		return 0;
	record = bpf_ringbuf_reserve(&wakeups, sizeof(__u64), 0);
	if (record)
		bpf_ringbuf_discard(record, BPF_RB_FORCE_WAKEUP);
	return 0;
}

/*
 * Wakes the agent if the agent sleeps and wants the record that was just submitted. A wake-up costs the traced program
 * 12 to 18 us, so the agent asks for one, and then drains the rings on a timer while records come.
 */
static __always_inline void wake_for_definition(void)
{
	if (agent_sleep == AGENT_WANTS_FIRST_RECORD)
		wake_agent(AGENT_WANTS_FIRST_RECORD);
	else if (agent_sleep == AGENT_WANTS_FULL_RING &&
		 (bpf_ringbuf_query(&definitions, BPF_RB_AVAIL_DATA) > DEFINITIONS_BYTES / DEFINITIONS_WAKE_SHARE ||
		  bpf_ringbuf_query(&file_definitions, BPF_RB_AVAIL_DATA) >
		      FILE_DEFINITIONS_BYTES / DEFINITIONS_WAKE_SHARE))
		wake_agent(AGENT_WANTS_FULL_RING);
}

/* Returns the event ring of the current CPU. */
static __always_inline void *event_ring(void)
{
	__u32 index = ring_of_cpu[bpf_get_smp_processor_id() & (CPUS_MAX - 1)];

	return bpf_map_lookup_elem(&events, &index);
}

/* Does the same as wake_for_definition() for an event that ended at `end_ns`, which serves as a random number. */
static __always_inline void wake_for_event(__u64 end_ns)
{
	void *ring;

	if (agent_sleep == AGENT_WANTS_FIRST_RECORD)
		wake_agent(AGENT_WANTS_FIRST_RECORD);
	if (agent_sleep != AGENT_WANTS_FULL_RING || (end_ns ^ end_ns >> 6) % EVENTS_PER_QUERY)
		return;
	ring = event_ring();
	if (ring && bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) > bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) / WAKE_SHARE)
		wake_agent(AGENT_WANTS_FULL_RING);
}

/*
 * Reserves room for an event; if there is no room, counts the loss and returns NULL. submit() does not wake the agent:
 * wake_for_event() does.
 */
#define reserve_event(record_type, type)                                                                               \
	({                                                                                                             \
		void *ring_ = event_ring();                                                                            \
		type *record_ = ring_ ? bpf_ringbuf_reserve(ring_, sizeof(type), 0) : NULL;                            \
		if (!record_)                                                                                          \
			count_loss(record_type, LOSS_RING_FULL);                                                       \
		record_;                                                                                               \
	})

#define submit(record) bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP)

/*
 * Returns an id that is unique among the contexts, processes and files of a run. The id is above CONTEXT_LOST and below
 * 2^53.
 */
static __always_inline __u64 new_id(void)
{
	__u32 zero = 0;
	__u64 *counter = bpf_map_lookup_elem(&next_ids, &zero);

	if (!counter)
		return 0;
	return ++*counter << 12 | bpf_get_smp_processor_id();
}

static __always_inline struct task_state *state_of(struct task_struct *task)
{
	return bpf_task_storage_get(&task_states, task, 0, 0);
}

struct process_loss {
	__u64 process_id;
	__u64 record_type;
};

/*
 * Number of definitions that each process has lost: markers that exceeded a share of the ring, and files of its calls.
 * The map drops processes if it is full; `losses` counts the lost definitions of all processes.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct process_loss);
	__type(value, __u64);
} process_losses SEC(".maps");

/*
 * Counts a lost definition of a process. Must be called before count_loss() increases the total: the agent reads the
 * total first, and subtracts the counts of the known processes to get the losses of unknown processes. In the other
 * order, a loss of a known process could count as a loss of an unknown process.
 */
static __noinline int count_process_loss(__u64 process_id, __u64 record_type)
{
	struct process_loss key = {process_id, record_type};
	__u64 none = 0, *count = bpf_map_lookup_elem(&process_losses, &key);

	if (!count) {
		bpf_map_update_elem(&process_losses, &key, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&process_losses, &key);
	}
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}

static __always_inline void count_loss_of(struct task_state *state, __u32 record_type, __u32 cause)
{
	if (state && state->process_id)
		count_process_loss(state->process_id, record_type);
	count_loss(record_type, cause);
}

static __always_inline struct task_state *new_state_of(struct task_struct *task)
{
	return bpf_task_storage_get(&task_states, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

static __always_inline struct task_state *leader_state_of(struct task_struct *task, struct task_state *state)
{
	return task->pid == task->tgid ? state : state_of(task->group_leader);
}

/*
 * Copies with plain loads instead of bpf_get_current_comm(): a helper call costs 25 ns on a CPU with all mitigations.
 */
static __always_inline void copy_comm(char *comm, struct task_struct *task)
{
	((__u64 *)comm)[0] = *(__u64 *)&task->comm[0];
	((__u64 *)comm)[1] = *(__u64 *)&task->comm[8];
}

#endif
