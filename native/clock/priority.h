#pragma once

/*
 * Gives the calling thread the highest priority that its process may give: SCHED_FIFO, otherwise a nice value of -10,
 * otherwise the shortest slice, which needs no privilege. Returns whether it got SCHED_FIFO, with which it keeps all
 * other threads from its CPU while it runs.
 */
bool raise_priority();
