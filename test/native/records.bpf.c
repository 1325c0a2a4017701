/* Puts records of any size into a ring, one per test run, or reserves and discards one. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define SCRATCH_BYTES 8192

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

struct scratch {
	__u8 bytes[SCRATCH_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

struct request {
	__u32 count;
	__u32 size;
};

static __always_inline int count_lost(void)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&lost, &zero);

	if (count)
		(*count)++;
	return 1;
}

SEC("syscall")
int emit(struct request *request)
{
	__u32 zero = 0, size = request->size;
	struct scratch *scratch_bytes = bpf_map_lookup_elem(&scratch, &zero);

	if (!scratch_bytes || size > SCRATCH_BYTES)
		return -1;
	if (bpf_ringbuf_output(&events, scratch_bytes, size, BPF_RB_NO_WAKEUP))
		return count_lost();
	return 0;
}

SEC("syscall")
int discard(struct request *request)
{
	void *record = bpf_ringbuf_reserve(&events, 40, 0);

	if (!record)
		return count_lost();
	bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
	return 0;
}

static long emit_one(__u32 index, void *unused)
{
	__u64 *record = bpf_ringbuf_reserve(&events, 100, 0);

	if (!record) {
		count_lost();
		return 1;
	}
	record[0] = index;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Emits `count` records of 100 bytes, for the benchmark. */
SEC("syscall")
int emit_many(struct request *request)
{
	bpf_loop(request->count, emit_one, 0, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
