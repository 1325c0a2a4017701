/**
 * Words of the contract that lower layers of the code use too. This file contains no schemas: a thread that needs a
 * word does not have to load zod.
 */

/** The rights that a token may have. */
export const SCOPES = ['events:read', 'replay:control'] as const;
export type Scope = (typeof SCOPES)[number];

/** Source of the offset that is added to a node's times: the caller, a measurement of the fleet, or no source. */
export const OFFSET_SOURCES = ['override', 'measured', 'none'] as const;

/**
 * State of a recording's agent. `failing`: the agent runs and reports that it is unable to write. `killed`: the agent
 * is gone and did not end properly. `silent`: the agent runs but writes nothing, because it hangs, is stopped, or its
 * disk is slow or full. `none`: no agent ever recorded into this file.
 */
export const AGENT_STATES = ['recording', 'failing', 'stopped', 'killed', 'silent', 'none'] as const;
