/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Hides the differences between kernels. Comments name the commits that introduced these differences. */
#ifndef KREPLAY_KERNEL_COMPAT_BPF_H
#define KREPLAY_KERNEL_COMPAT_BPF_H

#include "kernel.bpf.h"
#include "gen/events.h"

/*
 * Reads a field behind a pointer whose type the verifier does not know. bpf_rdonly_cast() (a35b9af4ec2c, 6.2) makes it
 * a typed pointer, whose loads are plain instructions; using a helper call for each load would make a write 250 ns
 * slower on a CPU with all mitigations. An object that names a kfunc does not load on a kernel without it, so there are
 * two objects.
 *
 * One object with a weak kfunc would not load on all kernels: 5.15 refuses the call of a missing kfunc even where it is
 * never reached ("kernel btf_id 0 is not a function"), and 6.2 and 6.3 refuse bpf_ksym_exists() of a kfunc ("pseudo
 * btf_id in ldimm64 isn't KIND_VAR"). On kernels that load it, each check would stay in the program.
 */
#ifdef WITH_RDONLY_CAST
extern void *bpf_rdonly_cast(const void *pointer, __u32 type_id) __ksym;
#define typed(type, pointer) ((type *)bpf_rdonly_cast(pointer, bpf_core_type_id_kernel(type)))
#define READ(type, pointer, field) (typed(type, pointer)->field)
/* struct path begins with a pointer, like the data that is read here. */
#define READ_POINTER(address) ((void *)typed(struct path, address)->mnt)
#else
#define READ(type, pointer, field) BPF_CORE_READ((type *)(pointer), field)
#define READ_POINTER(address)                                                                                          \
	({                                                                                                             \
		void *pointer_ = NULL;                                                                                 \
		bpf_probe_read_kernel(&pointer_, sizeof(pointer_), address);                                           \
		pointer_;                                                                                              \
	})
#endif

/*
 * Since 7.0, a tracepoint's program may be preempted, and another program could then write to the same CPU's scratch.
 * So the programs disable preemption if the agent has found that they may be preempted (tracepointsArePreempted() of
 * libbpf-ts). The kernel still skips a program's runs on a CPU while a task waits for that CPU inside the program,
 * which bpf_preempt_enable() itself may cause: such runs are counted as program_busy. Kernels before 6.15 refuse global
 * functions with preemption off, but need no such protection.
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
 * RQF_FLUSH_SEQ. The agent looks up its bit before load: the flag is a macro before 5f89154e8e9e (6.11) and an
 * enumerator since then, and in 6.12 that enum has no name, so CO-RE does not find it.
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
 * block_rq_complete passes an errno on older kernels and a blk_status_t on newer ones. The numbers are those of
 * blk_errors[] in block/blk-core.c, up to the first number that differs between kernels; all other numbers become EIO.
 * An errno is negative and is returned unchanged.
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

/* Kernels before 60700e38fb68 (5.17) have this field instead; it also refers to a thread that dumps core. */
struct signal_struct___group_exit_task {
	struct task_struct *group_exit_task;
} __attribute__((preserve_access_index));

/* Returns the thread for whose exec all other threads of its process end, or NULL if there is no such thread. */
static __always_inline struct task_struct *executor_of(struct task_struct *task)
{
	if (bpf_core_field_exists(((struct signal_struct *)0)->group_exec_task))
		return task->signal->group_exec_task;
	return ((struct signal_struct___group_exit_task *)task->signal)->group_exit_task;
}

/* The low eight bits of cmd_flags are an enum req_op, include/linux/blk_types.h. Only a flush writes no bytes. */
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
 * Number of bytes at the beginning of a bio's first vector that do not belong to the bio. The field has another name
 * since 7.3.
 */
static __always_inline __u32 bytes_done_in_vector(struct bio *bio)
{
	if (bpf_core_field_exists(bio->bi_iter.bi_offset))
		return BPF_CORE_READ(bio, bi_iter.bi_offset);
	return BPF_CORE_READ(bio, bi_iter.bi_bvec_done);
}

/*
 * Returns the first page of the folio that a page belongs to. The other pages contain the address of the first page,
 * with bit 0 set. In 7.3, they may contain a mask for their own address instead; a mask is larger than the address of
 * any page.
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

/* The flags are the first field of a page: a number, or since 53fbef56e07d (6.18) a struct. */
static __always_inline __u64 page_flags(__u64 page)
{
	__u64 flags = 0;

	bpf_probe_read_kernel(&flags, sizeof(flags), (void *)page);
	return flags;
}

#define has_page_flag(flags, flag) (!!((flags)&1ull << bpf_core_enum_value(enum pageflags, flag)))

/* Size of a large folio in bytes; 0 on kernels before ebc1baf5c9b4 (6.6), which keep its order elsewhere. */
static __always_inline __u64 large_folio_size(__u64 folio)
{
	struct folio *large = (struct folio *)folio;

	if (!bpf_core_field_exists(large->_flags_1))
		return 0;
	return (__u64)PAGE_SIZE << (BPF_CORE_READ(large, _flags_1) & 0x1f);
}

/* Offset of a folio in its file, in pages. */
static __always_inline __u64 folio_index(__u64 folio)
{
	if (bpf_core_field_exists(((struct folio *)folio)->index))
		return BPF_CORE_READ((struct folio *)folio, index);
	return BPF_CORE_READ((struct page *)folio, index);
}

/*
 * Offset of a page of the folio within its file, in pages. The pages of a folio are contiguous in the kernel's memory
 * map.
 */
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

/* Whether a bio carries pages to the device: REQ_OP_WRITE, include/linux/blk_types.h. */
static __always_inline bool writes_data(__u32 cmd_flags)
{
	return (cmd_flags & 0xff) == 1;
}

#endif
