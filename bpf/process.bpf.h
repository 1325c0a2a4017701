/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which program a task runs: defined at the task's first event in it. */
#ifndef KREPLAY_PROCESS_BPF_H
#define KREPLAY_PROCESS_BPF_H

#include "kreplay.bpf.h"

#define PROCESS_AGE_MAX_NS 60000000000ull

static __always_inline void define_process(struct task_struct *task, struct task_state *state, __u64 now_ns)
{
	struct process_definition *definition = reserve(definitions, PROCESS_DEFINITION, struct process_definition);
	const unsigned char *name;

	if (!definition) {
		/* The next event tries again. */
		state->process_id = 0;
		return;
	}
	__builtin_memset(definition, 0, sizeof(*definition));
	definition->definition_type = PROCESS_DEFINITION;
	definition->process_id = new_id();
	definition->start_ns = task->group_leader->start_boottime;
	definition->pid = task->tgid;
	definition->uid = bpf_get_current_uid_gid();
	definition->kernel_thread = !!(task->flags & PF_KTHREAD);
	if (!definition->kernel_thread) {
		name = BPF_CORE_READ(task, mm, exe_file, f_path.dentry, d_name.name);
		bpf_probe_read_kernel_str(definition->executable, sizeof(definition->executable), name);
	}
	state->process_id = definition->process_id;
	state->process_exec_id = task->self_exec_id;
	state->process_defined_ns = now_ns;
	submit(definition);
}

/*
 * One definition a task, and a new one each minute: the agent forgets what was not used for long. The kernel counts a
 * task's execs, so a new program is told without a hook on exec.
 */
static __always_inline __u64 process_id_of(struct task_struct *task, struct task_state *state, __u64 now_ns)
{
	if (!state->process_id || state->process_exec_id != task->self_exec_id ||
	    now_ns - state->process_defined_ns >= PROCESS_AGE_MAX_NS)
		define_process(task, state, now_ns);
	return state->process_id;
}

#endif
