#ifndef KREPLAY_RUNNER_OBSERVE_H
#define KREPLAY_RUNNER_OBSERVE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "links.h"
#include "options.h"

#define COMM_MAX 64

/* What /proc tells about a thread. Of a program that may not be looked at: false, 0, SIZE_UNKNOWN. */
bool observe_comm(uint32_t tid, char comm[static COMM_MAX]);
uint32_t observe_process(uint32_t tid);
/* What an fd of it stands for, as a path in production. False with ENOENT in errno: the fd is not open. */
bool observe_path(struct links *links, uint32_t tid, int fd, const struct options *options, char *path,
		  size_t path_bytes);
/* What is mapped at an address of it. */
bool observe_mapped_path(uint32_t tid, uint64_t address, const struct options *options, char *path, size_t path_bytes);
bool observe_has_ended(uint32_t tid);
bool observe_iovec(uint32_t tid, uint64_t iovec, uint64_t count, struct iovec parts[static IOV_MAX]);
uint32_t observe_iovec_bytes(uint32_t tid, uint64_t iovec, uint64_t count);

#endif
