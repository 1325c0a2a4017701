/** What the agent tells the kernel side of its filter: `struct filter_settings` of bpf/filter.bpf.h. */
export const FILTER_FLAGS = {
  /** Some processes are listed by number; only those on the list, but for the exceptions. */
  FILTER_PIDS: 1,
  FILTER_ONLY_PIDS: 2,
  /** The same of command names. */
  FILTER_COMMS: 4,
  FILTER_ONLY_COMMS: 8,
  /** Only events that have an owner. */
  FILTER_ONLY_LABELLED: 16,
  /** Some processes are known whose service or cgroup is not wanted. */
  FILTER_PROCESSES: 32,
} as const;

/** What a list says of an item. */
export const FILTER_VERDICTS = {
  FILTER_ONLY: 1,
  FILTER_EXCEPT: 2,
} as const;
