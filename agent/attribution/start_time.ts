/**
 * Added to the start of a process where the kernel compares it: a double does not hold every nanosecond behind 104 days,
 * so a start that JavaScript has may be some less than the kernel's.
 */
export const START_ROUNDING_NS = 1024;
