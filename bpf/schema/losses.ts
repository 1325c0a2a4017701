/**
 * Causes for which events or definitions are missing. The kernel side counts losses by cause and record type; the agent
 * adds its own causes.
 */
export const KERNEL_LOSS_CAUSES = {
  LOSS_RING_FULL: 0,
  LOSS_NO_MEMORY: 1,
  LOSS_END_MISSED: 2,
  LOSS_MARKER_UNREADABLE: 3,
  LOSS_MARKER_FLOOD: 4,
  LOSS_SHED: 5,
} as const;

export const LOSS_CAUSES = {
  ring_full: 'the agent did not drain the ring buffer in time',
  shed: 'a ring filled up: fast calls are missing, so percentiles are too high',
  no_memory: 'the kernel had no memory to remember the start of the event',
  end_missed: 'the event ended without the kernel running the program that records it',
  definition_lost: 'an owner, a process or a file could not be described: events say that it is unknown',
  marker_unreadable:
    'a line for /dev/null could not be read where the program keeps it, and may have been a marker: the events that followed have no owner',
  marker_flood:
    "markers took more than their user's or their cgroup's share of the definition ring: the events that followed have no owner",
  program_busy: 'the program was running on that CPU already, and the kernel skipped it',
  bad_record: 'a record had an unknown type or a wrong size',
  store_failed: 'the recording could not be written',
  agent_stopped: 'no agent recorded; how many events there were is not known',
  agent_killed:
    'the agent was killed, or its node went down: what was not written yet, or not on the disk, is missing, and no agent recorded until the next start',
  not_recorded_yet: 'no agent had recorded yet',
  not_written_yet:
    'the agent has not written yet what happened then: it does within a second, unless it is held up, stopped, or its disk is full',
  in_progress:
    'calls or requests that had begun and not ended when the agent ended, or have not yet: how long they took is not known',
  recording_removed: 'the recording was removed, replaced, overwritten or moved while an agent recorded into it',
  recording_damaged: 'the recording was damaged and set aside under another name: what was not written yet is missing',
  retention: 'removed because of their age or the size of the recording',
  damaged: 'a part of the recording cannot be read',
  unreadable: 'a file in the folder of imports cannot be read',
  not_arrived: 'the node has not shipped yet what happened then',
  unshipped: 'the byte limit of its node removed it, or its recording went, before it was shipped to the fleet',
  unavailable: 'the shard of the fleet that has what this node shipped does not answer',
  unknown: 'the recording gives a reason that this kreplay does not know',
} as const;

export type LossCause = keyof typeof LOSS_CAUSES;

/**
 * Returns the cause with this name, or `unknown`: another version of kreplay, or other software, may have written
 * another name.
 */
export function toLossCause(cause: string): LossCause {
  return Object.hasOwn(LOSS_CAUSES, cause) ? (cause as LossCause) : 'unknown';
}

/**
 * Causes whose counts are numbers of events that were never recorded. The list omits, for example, `definition_lost`,
 * which counts definitions; `agent_killed`, whose count is incomplete; `retention`, which removes recorded events; and
 * `in_progress`, whose events may still be recorded.
 */
export const COUNTED_LOSS_CAUSES: readonly LossCause[] = [
  'ring_full',
  'shed',
  'no_memory',
  'end_missed',
  'program_busy',
  'store_failed',
];

/** Remedy for each cause; null if there is no remedy, or if the cause is not a fault. */
export const LOSS_CURES: Readonly<Record<LossCause, string | null>> = {
  ring_full: 'give the agent a larger --ring-size, or record less with --service, --event-type or --min-duration',
  shed: 'give the agent a larger --ring-size, or record less with --service, --event-type or --min-duration',
  no_memory: 'free memory, or record less with --service or --event-type',
  end_missed: null,
  definition_lost:
    'give the agent more CPU time: programs and files of one user or cgroup, or of all, come faster than it reads them',
  marker_unreadable: 'keep the marker line in memory that was written to, such as a buffer of the program',
  marker_flood: 'set a marker once for each transaction, and not for each call',
  program_busy: null,
  bad_record: 'report it: agent and BPF programs do not fit each other',
  store_failed: 'free space on the disk of --data, give it a faster disk, or keep less with --retain-bytes',
  agent_stopped: null,
  agent_killed: null,
  not_recorded_yet: null,
  not_written_yet: null,
  in_progress: null,
  recording_removed: 'keep others away from the folder of --data; --retain-bytes and --retain-age remove what is old',
  recording_damaged: 'check the disk: the log says where the damaged recording is',
  retention: null,
  damaged: null,
  unreadable: 'import the file again, or take it out of the folder: /readyz says which one it is, and why',
  not_arrived: 'look at `kreplay ship` on the node, and at its way to the fleet',
  unshipped: 'raise --retain-bytes on the node, or give it a faster way to the fleet',
  unavailable: 'start a replica of the shard: once one answers, the same query is complete again',
  unknown: null,
};

/** Names of the kernel side's causes, indexed by their numbers. */
export const KERNEL_LOSS_WORDS: readonly LossCause[] = [
  'ring_full',
  'no_memory',
  'end_missed',
  'marker_unreadable',
  'marker_flood',
  'shed',
];

/** Dimensions of the array of loss counters, `[record type][cause]`. */
export const LOSS_TYPES_MAX = 128;
export const LOSS_CAUSES_MAX = 8;
