/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Tracks HTTP requests. The programs of all calls call these functions: a separate program would cost each call 70 ns
 * more.
 */
#ifndef KREPLAY_HTTP_BPF_H
#define KREPLAY_HTTP_BPF_H

#include "kreplay.bpf.h"

/* Defined in http.bpf.c. */
int http_read(__u32 id, int fd, __u64 argument, __s64 result);
int http_answer_or_wait(__u32 id, int fd);
int http_task_exit(void);

static __always_inline bool is_read(__u32 id)
{
	return id == NR_READ || id == NR_RECVFROM || id == NR_RECVMSG || id == NR_READV;
}

static __always_inline bool is_epoll(__u32 id)
{
	return id == NR_EPOLL_WAIT || id == NR_EPOLL_PWAIT || id == NR_EPOLL_PWAIT2;
}

static __always_inline bool is_answer(__u32 id)
{
	return id == NR_WRITE || id == NR_WRITEV || id == NR_SENDTO || id == NR_SENDMSG || id == NR_SENDMMSG ||
	       id == NR_SENDFILE;
}

/* The call may answer a request, wait for many connections, or close a connection. */
static __always_inline bool is_answer_or_wait(__u32 id)
{
	return is_answer(id) || is_epoll(id) || id == NR_CLOSE;
}

#endif
