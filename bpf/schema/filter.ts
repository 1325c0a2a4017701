/** Filter flags that the agent passes to the kernel side: `struct filter_settings` of bpf/filter.bpf.h. */
export const FILTER_FLAGS = {
  /**
   * Some processes are listed by pid. With FILTER_ONLY_PIDS, only listed processes are recorded. Processes that are
   * listed as exceptions are never recorded.
   */
  FILTER_PIDS: 1,
  FILTER_ONLY_PIDS: 2,
  /** The same as FILTER_PIDS and FILTER_ONLY_PIDS, for command names. */
  FILTER_COMMS: 4,
  FILTER_ONLY_COMMS: 8,
  /** Only events that have an owner are recorded. */
  FILTER_ONLY_LABELLED: 16,
  /** There may be processes whose service or cgroup is excluded. */
  FILTER_PROCESSES: 32,
} as const;

/** Verdict of a list on an item. */
export const FILTER_VERDICTS = {
  FILTER_ONLY: 1,
  FILTER_EXCEPT: 2,
} as const;
