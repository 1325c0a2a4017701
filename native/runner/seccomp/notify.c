#include "seccomp/notify.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

long seccomp(unsigned operation, unsigned flags, void *argument)
{
	return syscall(SYS_seccomp, operation, flags, argument);
}

enum received notify_receive(int listener, struct seccomp_notif *notif)
{
	/* The kernel refuses a struct that is not all zeros. */
	memset(notif, 0, sizeof(*notif));
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, notif) == 0)
		return RECEIVED_CALL;
	if (errno == ENOENT)
		return RECEIVED_GONE;
	return errno == EINTR || errno == EAGAIN ? RECEIVED_NONE : RECEIVED_ERROR;
}

static bool respond(int listener, struct seccomp_notif_resp *response)
{
	int sent;

	do
		sent = ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, response);
	while (sent < 0 && errno == EINTR);
	return sent == 0;
}

bool notify_continue(int listener, uint64_t id)
{
	struct seccomp_notif_resp response = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

	return respond(listener, &response);
}

bool notify_answer(int listener, uint64_t id, int64_t value, int error)
{
	struct seccomp_notif_resp response = {.id = id, .val = error ? 0 : value, .error = -error};

	return respond(listener, &response);
}

bool notify_is_valid(int listener, uint64_t id)
{
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

bool notify_wake_synchronously(int listener)
{
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP) == 0;
}
