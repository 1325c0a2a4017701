/* The verifier accepts the first program and refuses the second; the kernel does not have the hooks of the others. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} table SEC(".maps");

SEC("raw_tp/sys_enter")
int fine(void *ctx)
{
	return 0;
}

SEC("raw_tp/sys_enter")
int unchecked(void *ctx)
{
	__u32 key = 0;
	__u64 *value = bpf_map_lookup_elem(&table, &key);

	return *value;
}

SEC("?raw_tp/no_such_tracepoint")
int nowhere(void *ctx)
{
	return 0;
}

SEC("?tp_btf/no_such_tracepoint")
int unknown(void *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
