/**
 * Nanoseconds added to the start time of a process where the kernel compares it: past 104 days, a double does not hold
 * every nanosecond, so a start time in JavaScript may be slightly less than the kernel's.
 */
export const START_ROUNDING_NS = 1024;
