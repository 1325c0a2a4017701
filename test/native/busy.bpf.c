/* Reserves a record in the next syscall of one process, and holds it until user space releases it. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* Bounds the loop to about a second in all, in case user space never releases the record. */
#define INNER_TURNS (1 << 20)
#define OUTER_TURNS 1000

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

enum { TARGET_PID, HELD, RELEASE, SLOTS };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, __u32);
} control SEC(".maps");

static __always_inline __u32 volatile *slot(__u32 index)
{
	return bpf_map_lookup_elem(&control, &index);
}

static long released(void)
{
	__u32 volatile *release = slot(RELEASE);

	return release && *release;
}

static long inner(__u32 index, void *unused)
{
	return released();
}

static long outer(__u32 index, void *unused)
{
	bpf_loop(INNER_TURNS, inner, 0, 0);
	return released();
}

SEC("raw_tp/sys_enter")
int hold(void *ctx)
{
	__u32 volatile *target = slot(TARGET_PID), *held = slot(HELD);
	__u64 *record;

	if (!target || !held || *held || *target != bpf_get_current_pid_tgid() >> 32)
		return 0;
	record = bpf_ringbuf_reserve(&events, 8, 0);
	if (!record)
		return 0;
	*record = 1;
	*held = 1;
	bpf_loop(OUTER_TURNS, outer, 0, 0);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("syscall")
int emit_second(void *ctx)
{
	__u64 second = 2;

	return bpf_ringbuf_output(&events, &second, sizeof(second), BPF_RB_NO_WAKEUP);
}

char LICENSE[] SEC("license") = "GPL";
