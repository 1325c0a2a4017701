/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Records the arguments of a process, and the few of its environment variables that name a service or a trace.
 *
 * Both are read at exec: a short-lived process may end before the agent reads /proc, and a long-lived one may overwrite
 * its arguments with a title. A program that was started before the agent is read at its first event.
 */
#ifndef KREPLAY_PROGRAM_BPF_H
#define KREPLAY_PROGRAM_BPF_H

#include "context.bpf.h"

#define ENVIRONMENT_STRINGS_MAX 256
/* Maximum size of a variable; longer variables are left out. The size has to be a power of two. */
#define STRING_SIZE 1024
#define TRACEPARENT_SIZE_MAX 128

struct program_scratch {
	struct program_definition definition;
	char text[PROGRAM_TEXT_SIZE + STRING_SIZE];
	/* Address of the environment's next string. */
	__u64 address;
	/* Address of the environment's end. */
	__u64 end;
	/* Whether the next string is the rest of a long string. */
	__u32 continued;
	/* Size of the text so far. */
	__u32 size;
	/* Offset of the value of TRACEPARENT in the text. */
	__u32 traceparent_at;
	__u32 traceparent_size;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct program_scratch);
} program_scratch SEC(".maps");

static const struct environment_name environment_names[ENVIRONMENT_NAMES] = ENVIRONMENT_NAME_TABLE;

struct environment_words {
	__u64 words[ENVIRONMENT_NAME_WORDS];
};

/*
 * Returns the index of the name that a string begins with, or -1. This is a global function, so that it is verified
 * once instead of for each string.
 */
__noinline int environment_name_of(const struct environment_words *text)
{
	if (!text)
		return -1;
	for (int i = 0; i < ENVIRONMENT_NAMES; i++) {
		const struct environment_name *name = &environment_names[i];
		__u64 rest = 0;

		if ((text->words[0] ^ name->words[0]) & name->masks[0])
			continue;
		for (int word = 1; word < ENVIRONMENT_NAME_WORDS; word++)
			rest |= (text->words[word] ^ name->words[word]) & name->masks[word];
		if (!rest)
			return i;
	}
	return -1;
}

/*
 * Appends the next variable to the text if its name is in the table; returns 0 at the end. Like all state that changes
 * between iterations, the position is in the map: in registers, it would make the verifier walk a million instructions.
 */
__noinline int copy_variable(void)
{
	__u32 zero = 0, at;
	struct program_scratch *scratch = bpf_map_lookup_elem(&program_scratch, &zero);
	bool continued;
	char *text;
	long size;
	int name;

	if (!scratch)
		return 0;
	at = scratch->size;
	if (scratch->address >= scratch->end || at > PROGRAM_TEXT_SIZE - STRING_SIZE)
		return 0;
	text = &scratch->text[at & (PROGRAM_TEXT_SIZE - 1)];
	size = bpf_probe_read_user_str(text, STRING_SIZE, (void *)scratch->address);
	if (size <= 0)
		return 0;
	scratch->address += size < STRING_SIZE ? size : STRING_SIZE - 1;
	continued = scratch->continued;
	scratch->continued = size == STRING_SIZE;
	name = environment_name_of((void *)text);
	if (continued || name < 0)
		return 1;
	if (size == STRING_SIZE) {
		scratch->definition.flags = PROGRAM_ENVIRONMENT_CUT;
		return 1;
	}
	if (name == ENVIRONMENT_TRACEPARENT) {
		scratch->traceparent_at = at + sizeof("TRACEPARENT=") - 1;
		scratch->traceparent_size = size - sizeof("TRACEPARENT=");
	}
	scratch->size = at + size;
	return 1;
}

static STEP(copy_next_variable, __u32 i, void *context)
{
	return !copy_variable();
}

static __always_inline void copy_environment(struct program_scratch *scratch, struct mm_struct *mm)
{
	scratch->address = mm->env_start;
	scratch->end = environment_layer ? mm->env_end : mm->env_start;
	scratch->continued = false;
	scratch->traceparent_at = 0;
	REPEAT(ENVIRONMENT_STRINGS_MAX, copy_next_variable, NULL);
	if (!scratch->end || scratch->address < scratch->end)
		scratch->definition.flags = PROGRAM_ENVIRONMENT_CUT;
}

/*
 * Makes the trace in the program's environment the default context of its process, unless a marker has set a default.
 */
static __always_inline void set_environment_context(struct task_struct *task, struct task_state *leader,
						    struct program_scratch *program, __u64 now_ns)
{
	__u32 zero = 0, at = program->traceparent_at & (PROGRAM_TEXT_SIZE - 1);
	__u32 size = program->traceparent_size;
	struct context_scratch *scratch;

	if (leader->process_context_id && !(leader->process_context_flags & CONTEXT_ENVIRONMENT))
		return;
	leader->process_context_id = 0;
	leader->process_context_flags = CONTEXT_ENVIRONMENT;
	if (!at || size >= TRACEPARENT_SIZE_MAX)
		return;
	scratch = bpf_map_lookup_elem(&context_scratch, &zero);
	if (!scratch)
		return;
	bpf_probe_read_kernel(scratch->text, TRACEPARENT_SIZE_MAX, &program->text[at]);
	process_contexts_used = 1;
	leader->process_context_id = define_context(task, scratch, size, SCOPE_ENVIRONMENT, 0, now_ns);
}

/* Records that the program has no id, and that its environment may contain a trace, which the next attempt reads. */
static __always_inline void refuse_program(struct task_struct *task, struct task_state *leader)
{
	count_loss(PROGRAM_DEFINITION, LOSS_RING_FULL);
	leader->program_id = 0;
	if (leader->program_exec_id == (__u32)task->self_exec_id)
		return;
	leader->program_exec_id = task->self_exec_id;
	if (leader->process_context_id && !(leader->process_context_flags & CONTEXT_ENVIRONMENT))
		return;
	leader->process_context_flags = CONTEXT_ENVIRONMENT;
	leader->process_context_id = environment_layer ? CONTEXT_LOST : 0;
	process_contexts_used |= environment_layer;
}

/*
 * Defines the current task's program for the agent, and stores the definition's id on the group leader. Room is
 * requested first, because reading 200 variables takes 25 us.
 */
__noinline int define_program(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *leader = new_state_of(task->group_leader);
	struct program_definition *definition;
	struct program_scratch *scratch;
	struct mm_struct *mm = LOAD_POINTER(struct task_struct, task, mm);
	__u64 size, share = current_share();
	__u32 zero = 0;

	scratch = bpf_map_lookup_elem(&program_scratch, &zero);
	/* An exiting process has already released its memory. */
	if (!mm)
		return 0;
	if (!scratch || !leader) {
		count_loss(PROGRAM_DEFINITION, LOSS_NO_MEMORY);
		return 0;
	}
	if (!use_definitions(OTHER_DEFINITIONS, share, 0)) {
		refuse_program(task, leader);
		return 0;
	}
	definition = &scratch->definition;
	__builtin_memset(definition, 0, sizeof(*definition));
	definition->definition_type = PROGRAM_DEFINITION;
	definition->program_id = new_id();
	bpf_probe_read_kernel_str(definition->executable, sizeof(definition->executable),
				  BPF_CORE_READ(mm, exe_file, f_path.dentry, d_name.name));
	/*
	 * An event during an exec, such as a disk read, may occur before the arguments are in place:
	 * create_elf_tables(), fs/binfmt_elf.c.
	 */
	size = mm->env_end ? mm->arg_end - mm->arg_start : 0;
	if (size > ARGUMENTS_SIZE)
		size = ARGUMENTS_SIZE;
	barrier_var(size);
	if (size > ARGUMENTS_SIZE || bpf_probe_read_user(scratch->text, size, (void *)mm->arg_start))
		size = 0;
	definition->arguments_size = size;
	scratch->size = size;
	copy_environment(scratch, mm);
	size = scratch->size;
	definition->text_size = size;
	barrier_var(size);
	if (size > PROGRAM_TEXT_SIZE || !use_definitions(OTHER_DEFINITIONS, share, sizeof(*definition) + size) ||
	    bpf_ringbuf_output(&definitions, scratch, sizeof(*definition) + size, BPF_RB_NO_WAKEUP)) {
		count_loss(PROGRAM_DEFINITION, LOSS_RING_FULL);
		leader->program_id = 0;
	} else {
		leader->program_id = definition->program_id;
		wake_for_definition();
	}
	leader->program_exec_id = task->self_exec_id;
	if (mm->env_end)
		set_environment_context(task, leader, scratch, bpf_ktime_get_boot_ns());
	/* If the trace could not be stored, the next event tries again. */
	if (leader->process_context_id == CONTEXT_LOST && leader->process_context_flags & CONTEXT_ENVIRONMENT)
		leader->program_id = 0;
	return 0;
}

#endif
