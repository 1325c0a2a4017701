/** Words of the contract that the code below it uses too. No schemas are here: a thread that needs a word loads no zod. */

/** The rights that a token may have. */
export const SCOPES = ['events:read', 'replay:control'] as const;
export type Scope = (typeof SCOPES)[number];

/** Source of an offset that is added to a node's times: the caller, a measurement of the fleet, or none. */
export const OFFSET_SOURCES = ['override', 'measured', 'none'] as const;

/**
 * State of a recording's agent. `failing`: the agent runs and reports that it is unable to write. `killed`: the agent
 * is gone and did not end properly. `silent`: the agent runs but writes nothing: it hangs, is stopped, or its disk is
 * slow or full. `none`: no agent ever recorded into this file.
 */
export const AGENT_STATES = ['recording', 'failing', 'stopped', 'killed', 'silent', 'none'] as const;
