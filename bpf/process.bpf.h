/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Identifies the process of a task. The process is defined at the task's first event in a program. */
#ifndef KREPLAY_PROCESS_BPF_H
#define KREPLAY_PROCESS_BPF_H

#include "cgroup_path.bpf.h"
#include "kreplay.bpf.h"
#include "program.bpf.h"

#define PROCESS_AGE_MAX_NS 60000000000ull

/* Returns the id of the program that the process runs, or 0 if the program's definition was refused. */
static __always_inline __u64 program_id_of(struct task_struct *task, struct task_state *leader)
{
	if (!leader->program_id || leader->program_exec_id != (__u32)task->self_exec_id)
		define_program();
	return leader->program_exec_id == (__u32)task->self_exec_id ? leader->program_id : 0;
}

/* Emits the definition of the current process under the given id; returns false if the definition was refused. */
static __always_inline bool emit_process(struct task_struct *task, __u64 process_id, __u64 program_id, __u64 now_ns)
{
	bool kernel_thread = task->flags & PF_KTHREAD;
	struct mm_struct *mm = LOAD_POINTER(struct task_struct, task, mm);
	struct process_definition *definition;
	__u64 share = current_share();

	if (!use_definitions(OTHER_DEFINITIONS, share, sizeof(*definition)))
		return false;
	define_cgroup(share, now_ns);
	definition = bpf_ringbuf_reserve(&definitions, sizeof(*definition), 0);
	if (!definition)
		return false;
	__builtin_memset(definition, 0, sizeof(*definition));
	definition->definition_type = PROCESS_DEFINITION;
	definition->process_id = process_id;
	definition->program_id = program_id;
	definition->start_ns = leader_of(task)->start_boottime;
	definition->cgroup_id = cgroup_id_of(leader_of(task));
	definition->pid = task->tgid;
	definition->uid = bpf_get_current_uid_gid();
	definition->kernel_thread = kernel_thread;
	definition->exec_id = task->self_exec_id;
	definition->stack_start = mm && !kernel_thread ? mm->start_stack : 0;
	definition->share = share;
	submit(definition);
	wake_for_definition();
	return true;
}

/*
 * Defines the process of a group leader. A process that is defined again only because its definition is old keeps its
 * id. If the new definition is refused, the agent most probably still has the old definition.
 */
static __always_inline void define_process(struct task_struct *task, struct task_state *leader, __u64 now_ns)
{
	__u64 known_id = leader->process_id, program_id = 0, id, cgroups;
	bool is_same, has_program = LOAD_POINTER(struct task_struct, task, mm) && !(task->flags & PF_KTHREAD),
		      is_refused = false;

	/*
	 * The css_set is read before the cgroup's id: if the process moves in between, its next event defines the
	 * process again.
	 */
	cgroups = (__u64)leader_of(task)->cgroups;
	is_same =
	    known_id && leader->process_exec_id == (__u32)task->self_exec_id && leader->process_cgroups == cgroups;
	id = is_same ? known_id : new_id();
	/* An exiting process has released its memory, but its cgroup may identify it. */
	if (has_program)
		program_id = program_id_of(task, leader);
	if ((has_program && !program_id) || !emit_process(task, id, program_id, now_ns))
		is_refused = true;
	if (is_refused && !is_same)
		id = 0;
	leader->process_exec_id = task->self_exec_id;
	leader->process_cgroups = cgroups;
	/* If several threads define their process at the same time, the first definition wins: a process has one id. */
	__sync_val_compare_and_swap(&leader->process_id, known_id, id);
	leader->process_defined_ns = is_refused && is_same ? now_ns - PROCESS_AGE_MAX_NS + REFUSAL_NS : now_ns;
}

static __always_inline bool is_defined(struct task_struct *task, struct task_state *state, __u64 now_ns)
{
	return state->process_exec_id == (__u32)task->self_exec_id &&
	       state->process_cgroups == (__u64)leader_of(task)->cgroups &&
	       now_ns - state->process_defined_ns < (state->process_id ? PROCESS_AGE_MAX_NS : REFUSAL_NS);
}

static __noinline void look_up_process(struct task_state *state, __u64 now_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *leader = state;

	if (task->pid != task->tgid)
		leader = new_state_of(task->group_leader);
	if (!leader) {
		state->process_id = 0;
		return;
	}
	if (!is_defined(task, leader, now_ns))
		define_process(task, leader, now_ns);
	if (leader == state)
		return;
	state->process_id = leader->process_id;
	state->process_exec_id = leader->process_exec_id;
	state->process_cgroups = leader->process_cgroups;
	state->process_defined_ns = leader->process_defined_ns;
}

/*
 * Returns the id of the task's process, or 0 if its definition was refused. A process has one id for all its threads,
 * until it executes another program or moves to another cgroup. A changed address of the process's css_set shows such a
 * move. The process is defined again each minute, because the agent drops definitions that were not used for long. The
 * kernel counts a process's execs, so a new program is detected even if its exec was not seen.
 */
static __always_inline __u64 process_id_of(struct task_struct *task, struct task_state *state, __u64 now_ns)
{
	if (!is_defined(task, state, now_ns))
		look_up_process(state, now_ns);
	if (!state->process_id)
		count_loss(PROCESS_DEFINITION, LOSS_RING_FULL);
	return state->process_id;
}

#endif
