/* Refers weakly to a kfunc that no kernel has, and works without it. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

extern void bpf_no_kernel_has_this(void) __weak __ksym;

SEC("tp_btf/sys_enter")
int on_sys_enter(void *ctx)
{
	if (bpf_no_kernel_has_this)
		bpf_no_kernel_has_this();
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
