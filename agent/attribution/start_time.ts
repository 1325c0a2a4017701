/**
 * Nanoseconds added to a process's start time before the kernel compares it. After an uptime of 104 days, a double no
 * longer represents every nanosecond, so the start time in JavaScript may be slightly less than the kernel's.
 */
export const START_ROUNDING_NS = 1024;
