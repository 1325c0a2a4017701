/** Words of the contract that the code below it uses too. No schemas are here: a thread that needs a word loads no zod. */

/** The rights that a token may have. */
export const SCOPES = ['events:read', 'replay:control'] as const;
export type Scope = (typeof SCOPES)[number];

/** Origin of an offset that is added to a node's times: from the caller, measured by a fleet, or there is no offset. */
export const OFFSET_SOURCES = ['override', 'measured', 'none'] as const;

/**
 * State of a recording's agent. `failing`: it is running and reports that it cannot write. `killed`: it is gone and did
 * not end properly. `silent`: it is running but writes nothing: it hangs, is stopped, or its disk is slow or full. `none`:
 * no agent ever recorded into this file.
 */
export const AGENT_STATES = ['recording', 'failing', 'stopped', 'killed', 'silent', 'none'] as const;
