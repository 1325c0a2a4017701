/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * All system calls pass through here; a few are looked at.
 *
 * tp_btf/sys_enter and sys_exit instead of the classic tracepoint of each call: measured at 221 ns a write against
 * 349 ns, because registers are read directly and no arguments are copied.
 */
#include "http.bpf.h"
#include "sys_sync.bpf.h"
#include "sys_write.bpf.h"

SEC("tp_btf/sys_exit")
int BPF_PROG(call_exit, struct pt_regs *regs, long result)
{
	__u32 id = regs->orig_ax;

	if (is_write(id))
		end_write(regs, id, result);
	else if (is_sync(id))
		end_sync(result);
	else if (programs_are_preempted && is_write32(id))
		end_write32(regs, id, result);
	else if (http_layer && is_read(id) && result > 0)
		http_read(id, regs->di, regs->si, result);
	return 0;
}

/* Behind call_exit, and so attached after it: no call that is seen to begin must miss its end. */
SEC("tp_btf/sys_enter")
int BPF_PROG(call_enter, struct pt_regs *regs, long id)
{
	if (is_write(id))
		begin_write(regs, id);
	else if (is_sync(id))
		begin_sync(regs, id);
	else if (is_write32(id))
		begin_write32(regs, id);
	if (http_layer && is_answer_or_wait(id))
		http_answer_or_wait(id, regs->di);
	return 0;
}
