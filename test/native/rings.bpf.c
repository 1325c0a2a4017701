/* Puts records into one of several rings, or counts in one of several arrays, one per test run. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define RINGS_MAX 5

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, RINGS_MAX);
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps");

struct array {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, RINGS_MAX);
	__type(key, __u32);
	__array(values, struct array);
} arrays SEC(".maps");

/* The two arrays that `numbers` may hold. */
struct array first SEC(".maps"), second SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct array);
} numbers SEC(".maps") = {.values = {&first}};

/* Adds 1 to the number of the array that `numbers` holds. Returns 1 if there is none. */
SEC("syscall")
int count(void *unused)
{
	__u32 zero = 0;
	void *array = bpf_map_lookup_elem(&numbers, &zero);
	__u64 *number = array ? bpf_map_lookup_elem(array, &zero) : 0;

	if (!number)
		return 1;
	__sync_fetch_and_add(number, 1);
	return 0;
}

struct request {
	__u32 ring;
	__u32 value;
	/* BPF_RB_* */
	__u32 flags;
};

/* Returns 0, 1 if the ring is full, and 2 if there is no ring. */
SEC("syscall")
int emit(struct request *request)
{
	__u32 index = request->ring;
	void *ring = bpf_map_lookup_elem(&rings, &index);
	__u64 value = request->value;

	if (!ring)
		return 2;
	return bpf_ringbuf_output(ring, &value, sizeof(value), request->flags) != 0;
}

char LICENSE[] SEC("license") = "GPL";
