#include <bpf/bpf.h>
#include <errno.h>

/*
 * libbpf looks through the types of all modules for what the kernel itself does not have, which takes CAP_SYS_ADMIN;
 * libbpf 1.1 gives up on the whole object without it, though the object may well do without. The linker puts this in
 * the place of the original: who may not ask sees no modules.
 */
int __real_bpf_btf_get_next_id(__u32 start_id, __u32 *next_id);

int __wrap_bpf_btf_get_next_id(__u32 start_id, __u32 *next_id)
{
	const int result = __real_bpf_btf_get_next_id(start_id, next_id);

	if (result == 0 || errno != EPERM)
		return result;
	errno = ENOENT;
	return -ENOENT;
}
