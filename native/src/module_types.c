#include <bpf/bpf.h>
#include <errno.h>

/*
 * libbpf searches the types of all modules for those that the kernel itself does not have, which requires
 * CAP_SYS_ADMIN; without it libbpf 1.1 fails to load the object, even if the object does not need module types. The
 * linker replaces the original by this wrapper: an unprivileged process sees no modules.
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
