/* One example of each: ways to attach, read-only variables, maps, an iterator. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <stdbool.h>

#define FTRUNCATE 77

struct pt_regs;

const volatile __u32 target_pid = 0;
const volatile __u64 wide = 1;
const volatile short narrow = 2;
const volatile bool flag = false;
const volatile char label[8] = "none";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} table SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

static __always_inline void count(__u32 index)
{
	__u32 *value = bpf_map_lookup_elem(&counts, &index);

	if (value)
		(*value)++;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long id)
{
	if (id == FTRUNCATE && target_pid == bpf_get_current_pid_tgid() >> 32)
		count(0);
	return 0;
}

SEC("raw_tp/sys_enter")
int on_ftruncate(struct bpf_raw_tracepoint_args *ctx)
{
	if (ctx->args[1] == FTRUNCATE && target_pid == bpf_get_current_pid_tgid() >> 32)
		count(1);
	return 0;
}

/* Not loaded by default: classic tracepoints need a mounted tracefs. */
SEC("?tp/syscalls/sys_enter_ftruncate")
int on_classic(void *ctx)
{
	if (target_pid == bpf_get_current_pid_tgid() >> 32)
		count(1);
	return 0;
}

/* Its section does not name a tracepoint. */
SEC("raw_tp")
int unattachable(struct bpf_raw_tracepoint_args *ctx)
{
	return ctx->args[0] + ctx->args[1];
}

struct answer {
	__u64 wide;
	__s64 narrow;
	__u32 target_pid;
	__u32 flag;
	char label[8];
};

SEC("syscall")
int read_variables(struct answer *answer)
{
	answer->wide = wide;
	answer->narrow = narrow;
	answer->target_pid = target_pid;
	answer->flag = flag;
	for (int i = 0; i < 8; i++)
		answer->label[i] = label[i];
	return 7;
}

struct task_struct {
	int pid;
	int tgid;
} __attribute__((preserve_access_index));

struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));

SEC("iter/task")
int tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 ids[2];

	if (!task)
		return 0;
	ids[0] = task->tgid;
	ids[1] = task->pid;
	bpf_seq_write(ctx->meta->seq, ids, sizeof(ids));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
