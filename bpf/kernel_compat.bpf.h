/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Hides the differences between kernels. Comments name the commits that introduced these differences. */
#ifndef KREPLAY_KERNEL_COMPAT_BPF_H
#define KREPLAY_KERNEL_COMPAT_BPF_H

#include "kernel.bpf.h"
#include "gen/events.h"

/*
 * Reads a field through a pointer whose type the verifier does not know. bpf_rdonly_cast() (a35b9af4ec2c, 6.2) gives
 * the pointer a type, so that loads are plain instructions. A helper call for each load would make a write 250 ns
 * slower on a CPU with all mitigations. A BPF object that names a kfunc does not load on a kernel without that kfunc,
 * so the programs are compiled into two objects.
 *
 * One object with a weak kfunc would not load on all kernels: 5.15 refuses the call of a missing kfunc even where it is
 * never reached ("kernel btf_id 0 is not a function"), and 6.2 and 6.3 refuse bpf_ksym_exists() of a kfunc ("pseudo
 * btf_id in ldimm64 isn't KIND_VAR"). On kernels that load such an object, each check for the kfunc would cost time.
 */
#ifdef WITH_RDONLY_CAST
extern void *bpf_rdonly_cast(const void *pointer, __u32 type_id) __ksym;
#define typed(type, pointer) ((type *)bpf_rdonly_cast(pointer, bpf_core_type_id_kernel(type)))
#define READ(type, pointer, field) (typed(type, pointer)->field)
/*
 * Loads a pointer field through a pointer that the verifier trusts. For each plain load, the verifier would search all
 * types of the kernel by name, which takes a millisecond. The cast avoids the search, because its result is not
 * trusted. So the loaded pointer cannot be passed to a helper that needs a trusted pointer.
 */
#define LOAD_POINTER(type, pointer, field) READ(type, pointer, field)
/* Any struct with a pointer as its first field would do instead of struct path. */
#define READ_POINTER(address) ((void *)typed(struct path, address)->mnt)
#else
#define READ(type, pointer, field) BPF_CORE_READ((type *)(pointer), field)
#define LOAD_POINTER(type, pointer, field) ((pointer)->field)
#define READ_POINTER(address)                                                                                          \
	({                                                                                                             \
		void *pointer_ = NULL;                                                                                 \
		bpf_probe_read_kernel(&pointer_, sizeof(pointer_), address);                                           \
		pointer_;                                                                                              \
	})
#endif

/*
 * Calls `step(i, context)` for each i from 0 until `step` returns 1, at most `max` times. bpf_loop() (e6f2dd0f8067,
 * 5.17) lets the verifier check one step instead of `max` steps, so that the programs load in a fraction of the time.
 * The object for kernels before 6.2 has a plain loop, because these kernels may lack bpf_loop().
 */
#ifdef WITH_RDONLY_CAST
#define REPEAT(max, step, context) bpf_loop(max, step, context, 0)
#define STEP(name, args...) long name(args)
/* Number of words that a step reads from a long text, because the call of a step costs as much as several words. */
#define WORDS_A_STEP 16
#else
#define REPEAT(max, step, context)                                                                                     \
	do {                                                                                                           \
		for (int step_ = 0; step_ < (int)(max); step_++)                                                       \
			if (step(step_, context))                                                                      \
				break;                                                                                 \
	} while (0)
#define STEP(name, args...) __always_inline long name(args)
#define WORDS_A_STEP 1
#endif

/*
 * Since 7.0, a tracepoint's program may be preempted, and another program could then write to the same CPU's scratch.
 * So the programs disable preemption if the agent has found that they may be preempted (tracepointsArePreempted() of
 * libbpf-ts). A task may still be preempted inside a program, for example by bpf_preempt_enable() itself. Until the
 * task continues, the kernel skips all runs of that program on that CPU, which are counted as program_busy. Kernels
 * before 6.15 refuse global functions with preemption off, but need no such protection.
 */
const volatile bool programs_are_preempted = false;
#ifdef WITH_RDONLY_CAST
extern void bpf_preempt_disable(void) __weak __ksym;
extern void bpf_preempt_enable(void) __weak __ksym;

#undef BPF_PROG
/* clang-format off */
#define BPF_PROG(name, args...)                                                                                        \
	name(unsigned long long *ctx);                                                                                 \
	static __always_inline int ____##name(unsigned long long *ctx, ##args);                                        \
	int name(unsigned long long *ctx)                                                                              \
	{                                                                                                              \
		int result;                                                                                            \
                                                                                                                       \
		if (programs_are_preempted)                                                                            \
			bpf_preempt_disable();                                                                         \
		_Pragma("GCC diagnostic push")                                                                         \
		_Pragma("GCC diagnostic ignored \"-Wint-conversion\"")                                                 \
		result = ____##name(___bpf_ctx_cast(args));                                                            \
		_Pragma("GCC diagnostic pop")                                                                          \
		if (programs_are_preempted)                                                                            \
			bpf_preempt_enable();                                                                          \
		return result;                                                                                         \
	}                                                                                                              \
	static __always_inline int ____##name(unsigned long long *ctx, ##args)
/* clang-format on */
#endif

/*
 * RQF_FLUSH_SEQ. The agent sets its value before load, because CO-RE does not find it on all kernels: the flag is a
 * macro before 5f89154e8e9e (6.11), and in 6.12 an enumerator of an enum without a name.
 */
const volatile __u32 flush_sequence_flag = 0;

/*
 * Returns whether the request is in a flush sequence. Such a request completes once when its data is written, and again
 * when the cache is flushed.
 */
static __always_inline bool in_flush_sequence(struct request *rq)
{
	return rq->rq_flags & flush_sequence_flag;
}

/*
 * Converts the status of block_rq_complete to an errno. Older kernels already pass a negative errno, which is returned
 * unchanged; newer ones pass a blk_status_t. The numbers are those of blk_errors[] in block/blk-core.c, up to the first
 * number that differs between kernels. All other numbers become EIO.
 */
static __always_inline int block_error(int status)
{
	if (status <= 0)
		return status;
	switch (status) {
	case 1:
		return -95; /* BLK_STS_NOTSUPP: EOPNOTSUPP */
	case 2:
		return -110; /* BLK_STS_TIMEOUT: ETIMEDOUT */
	case 3:
		return -28; /* BLK_STS_NOSPC: ENOSPC */
	case 4:
		return -67; /* BLK_STS_TRANSPORT: ENOLINK */
	case 5:
		return -121; /* BLK_STS_TARGET: EREMOTEIO */
	case 6:
		return -52; /* BLK_STS_RESV_CONFLICT: EBADE */
	case 7:
		return -61; /* BLK_STS_MEDIUM: ENODATA */
	case 8:
		return -84; /* BLK_STS_PROTECTION: EILSEQ */
	case 9:
		return -12; /* BLK_STS_RESOURCE: ENOMEM */
	default:
		return -5; /* EIO */
	}
}

/*
 * Returns the leader of the task's thread group, only for reading fields: bpf_task_storage_get() needs a trusted
 * pointer, `task->group_leader`.
 */
static __always_inline struct task_struct *leader_of(struct task_struct *task)
{
	return LOAD_POINTER(struct task_struct, task, group_leader);
}

/*
 * Kernels before 60700e38fb68 (5.17) have this field instead of group_exec_task. It may also refer to a thread that
 * dumps core.
 */
struct signal_struct___group_exit_task {
	struct task_struct *group_exit_task;
} __attribute__((preserve_access_index));

/*
 * Returns the thread of the task's process that executes a program, which ends all other threads; NULL if no thread
 * does. The pointer is only for comparing and reading: some kernels do not trust a pointer loaded from signal_struct.
 */
static __always_inline struct task_struct *executor_of(struct task_struct *task)
{
	if (bpf_core_field_exists(((struct signal_struct *)0)->group_exec_task))
		return task->signal->group_exec_task;
	return ((struct signal_struct___group_exit_task *)task->signal)->group_exit_task;
}

/*
 * HOLD_TASK() returns a pointer to the same task that every helper takes; NULL if the task has ended. RELEASE_TASK()
 * gives the pointer back. bpf_task_from_pid() is as old as bpf_rdonly_cast(): 3f0e6f2b41d3 (6.2). Older kernels trust
 * all pointers that are loaded from a task.
 */
#ifdef WITH_RDONLY_CAST
extern struct task_struct *bpf_task_from_pid(__s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *task) __ksym;
#define HOLD_TASK(task) bpf_task_from_pid((task)->pid)
#define RELEASE_TASK(task) bpf_task_release(task)
#else
#define HOLD_TASK(task) (task)
#define RELEASE_TASK(task) ((void)(task))
#endif

/*
 * Returns the BLOCK_OPERATION_* of a request. The low eight bits of cmd_flags are an enum req_op,
 * include/linux/blk_types.h. A write of no bytes is a flush.
 */
static __always_inline __u32 block_operation(__u32 cmd_flags, __u32 bytes)
{
	switch (cmd_flags & 0xff) {
	case 0:
		return BLOCK_OPERATION_READ;
	case 1:
		return bytes ? BLOCK_OPERATION_WRITE : BLOCK_OPERATION_FLUSH;
	case 2:
		return BLOCK_OPERATION_FLUSH;
	case 3:
		return BLOCK_OPERATION_DISCARD;
	default:
		return BLOCK_OPERATION_OTHER;
	}
}

/*
 * Returns the number of bytes at the beginning of a bio's current vector that do not belong to the bio. The field has
 * another name since 7.3.
 */
static __always_inline __u32 bytes_done_in_vector(struct bio *bio)
{
	if (bpf_core_field_exists(bio->bi_iter.bi_offset))
		return BPF_CORE_READ(bio, bi_iter.bi_offset);
	return BPF_CORE_READ(bio, bi_iter.bi_bvec_done);
}

/*
 * Returns the first page of the folio that a page belongs to. Every other page of the folio contains the address of the
 * first page, with bit 0 set. Since 7.3, the page may instead contain a mask: its own address under that mask is the
 * address of the first page. A mask is larger than the address of any page.
 */
static __always_inline __u64 folio_of(struct page *page)
{
	__u64 own = (__u64)page, head;

	if (bpf_core_field_exists(page->compound_info))
		head = BPF_CORE_READ(page, compound_info);
	else
		head = BPF_CORE_READ(page, compound_head);
	if (!(head & 1))
		return own;
	return head < own ? head - 1 : own & head;
}

/* Returns a pointer as a number, because the verifier forbids arithmetic on pointers of a known type. */
static __always_inline __u64 address_of(const void *pointer)
{
	__u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), &pointer);
	return address;
}

/* Returns the flags of a page, which are its first field: a number, or since 53fbef56e07d (6.18) a struct. */
static __always_inline __u64 page_flags(__u64 page)
{
	__u64 flags = 0;

	bpf_probe_read_kernel(&flags, sizeof(flags), (void *)page);
	return flags;
}

#define has_page_flag(flags, flag) (!!((flags)&1ull << bpf_core_enum_value(enum pageflags, flag)))

/*
 * Returns the size of a large folio in bytes; 0 on kernels before ebc1baf5c9b4 (6.6), which keep the order in another
 * field.
 */
static __always_inline __u64 large_folio_size(__u64 folio)
{
	struct folio *large = (struct folio *)folio;

	if (!bpf_core_field_exists(large->_flags_1))
		return 0;
	return (__u64)PAGE_SIZE << (BPF_CORE_READ(large, _flags_1) & 0x1f);
}

/* Returns the offset of a folio in its file, in pages. */
static __always_inline __u64 folio_index(__u64 folio)
{
	if (bpf_core_field_exists(((struct folio *)folio)->index))
		return BPF_CORE_READ((struct folio *)folio, index);
	return BPF_CORE_READ((struct page *)folio, index);
}

/* Returns the offset of a page in its file, in pages. The page structures of a folio are contiguous in memory. */
static __always_inline __u64 page_index(__u64 page, __u64 folio)
{
	return folio_index(folio) + (page - folio) / bpf_core_type_size(struct page);
}

static __always_inline __u64 buffer_folio(struct buffer_head *buffer)
{
	if (bpf_core_field_exists(buffer->b_folio))
		return address_of(buffer->b_folio);
	return folio_of((struct page *)address_of(buffer->b_page));
}

/* Returns whether a bio writes data to the device: REQ_OP_WRITE, include/linux/blk_types.h. */
static __always_inline bool writes_data(__u32 cmd_flags)
{
	return (cmd_flags & 0xff) == 1;
}

#endif
