/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Identifies the process of a task, which is defined at the task's first event in a program. */
#ifndef KREPLAY_PROCESS_BPF_H
#define KREPLAY_PROCESS_BPF_H

#include "budget.bpf.h"
#include "kreplay.bpf.h"
#include "program.bpf.h"

#define PROCESS_AGE_MAX_NS 60000000000ull

/* The cgroup hierarchy that process definitions refer to. The agent sets it before load. */
enum cgroup_hierarchy { CGROUP_V2, CGROUP_V1_MEMORY, CGROUP_V1_PIDS };
const volatile __u32 cgroup_hierarchy = CGROUP_V2;

/* Inode number of the cgroup's directory. bpf_get_current_cgroup_id() supports v2 only. */
static __always_inline __u64 cgroup_id_of(struct task_struct *task)
{
	struct cgroup_subsys_state **states, *state = NULL;
	__u32 index;

	if (cgroup_hierarchy == CGROUP_V2)
		return BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	if (cgroup_hierarchy == CGROUP_V1_MEMORY)
		index = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
	else
		index = bpf_core_enum_value(enum cgroup_subsys_id, pids_cgrp_id);
	/* CO-RE cannot relocate an index that is not a constant. */
	states = (void *)BPF_CORE_READ(task, cgroups) + bpf_core_field_offset(struct css_set, subsys);
	bpf_probe_read_kernel(&state, sizeof(state), states + index);
	return BPF_CORE_READ(state, cgroup, kn, id);
}

/* The program that the process runs; 0 if its definition was lost. */
static __always_inline __u64 program_id_of(struct task_struct *task, struct task_state *state)
{
	struct task_state *leader;

	if (state->program_id && state->program_exec_id == (__u32)task->self_exec_id)
		return state->program_id;
	leader = state_of(task->group_leader);
	if (!leader || !leader->program_id || leader->program_exec_id != (__u32)task->self_exec_id) {
		define_program();
		leader = state_of(task->group_leader);
	}
	if (!leader)
		return 0;
	state->program_id = leader->program_id;
	state->program_exec_id = leader->program_exec_id;
	return state->program_id;
}

static __always_inline bool has_room_for_process(__u64 user)
{
	if (use_definitions(user, sizeof(struct process_definition)))
		return true;
	count_loss(PROCESS_DEFINITION, LOSS_RING_FULL);
	return false;
}

static __noinline void define_process(struct task_state *state, __u64 now_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool kernel_thread = task->flags & PF_KTHREAD;
	struct mm_struct *mm = task->mm;
	__u64 program_id = kernel_thread ? 0 : program_id_of(task, state);
	struct process_definition *definition = NULL;
	__u64 user = current_user();

	if ((program_id || kernel_thread) && has_room_for_process(user))
		definition = reserve(definitions, PROCESS_DEFINITION, struct process_definition);
	if (!definition) {
		/* The next event tries again. */
		state->process_id = 0;
		return;
	}
	__builtin_memset(definition, 0, sizeof(*definition));
	/* It is read before the cgroup: if the task moves in between, its next event defines it again. */
	state->process_cgroups = (__u64)task->cgroups;
	definition->definition_type = PROCESS_DEFINITION;
	definition->process_id = new_id();
	definition->program_id = program_id;
	definition->start_ns = task->group_leader->start_boottime;
	definition->cgroup_id = cgroup_id_of(task);
	definition->pid = task->tgid;
	definition->uid = bpf_get_current_uid_gid();
	definition->kernel_thread = kernel_thread;
	definition->exec_id = task->self_exec_id;
	definition->stack_start = mm && !kernel_thread ? mm->start_stack : 0;
	definition->user = user;
	state->process_id = definition->process_id;
	state->process_exec_id = task->self_exec_id;
	state->process_defined_ns = now_ns;
	submit(definition);
}

/*
 * Each task has one definition, and a new one each minute, because the agent drops definitions that were not used for
 * long. The kernel counts a task's execs, so a new program is detected even if its exec was not seen. A task that moves
 * to another cgroup gets another css_set; only its address is compared.
 */
static __always_inline __u64 process_id_of(struct task_struct *task, struct task_state *state, __u64 now_ns)
{
	if (!state->process_id || state->process_exec_id != (__u32)task->self_exec_id ||
	    state->process_cgroups != (__u64)task->cgroups || now_ns - state->process_defined_ns >= PROCESS_AGE_MAX_NS)
		define_process(state, now_ns);
	return state->process_id;
}

#endif
