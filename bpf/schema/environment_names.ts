/**
 * The only environment variables that are read. All other variables are ignored, because programs keep passwords in the
 * environment. The kernel side compares whole names, so no other variable ever reaches the agent.
 */
export const ENVIRONMENT_NAMES = [
  'OTEL_SERVICE_NAME',
  'OTEL_RESOURCE_ATTRIBUTES',
  'CI_JOB_NAME',
  'GITHUB_JOB',
  'JOB_NAME',
  'BUILDKITE_LABEL',
  'TRACEPARENT',
] as const;

export type EnvironmentName = (typeof ENVIRONMENT_NAMES)[number];

/** Maximum length of a name with its `=`, in words of eight bytes. */
export const ENVIRONMENT_NAME_WORDS = 4;
