/**
 * Ways in which an event's owner was determined, which differ in certainty. A recording stores the index, so new
 * sources may only be appended.
 */
export const ATTRIBUTION_SOURCES = ['none', 'marker', 'inherited', 'env', 'otel', 'http', 'origin'] as const;
export const ATTRIBUTION_QUALITIES = ['none', 'exact', 'inherited', 'shared', 'ambiguous'] as const;

export type AttributionSource = (typeof ATTRIBUTION_SOURCES)[number];
export type AttributionQuality = (typeof ATTRIBUTION_QUALITIES)[number];

/** Meanings of the sources, as the pages show them. */
export const SOURCE_MEANINGS: Readonly<Record<AttributionSource, string>> = {
  marker: 'a marker that the thread or its process wrote',
  otel: "the thread's OpenTelemetry context",
  http: 'the `traceparent` header of the HTTP request that the thread serves (`--http-services`)',
  env: '`TRACEPARENT` in the environment of its program',
  inherited: 'a marker of the parent process, or of the thread that made this one',
  origin: 'the tasks whose data a block request carries',
  none: 'nothing named an owner, or what named it was lost',
};

export const QUALITY_MEANINGS: Readonly<Record<AttributionQuality, string>> = {
  exact: 'the thread itself was labelled',
  inherited: 'the owner comes from a parent process or from the thread that made this one',
  shared: 'a request carries the data of several owners; `origins` names them',
  ambiguous:
    'others may have written to the same page as one of the owners; also a service that is only known by the cgroup to which write-back is charged (cgroup v2 with both `memory` and `io` in `cgroup.subtree_control`)',
  none: 'nothing named an owner',
};

/** Kind of a file. A recording stores the word. */
export const FILE_KINDS = [
  'regular',
  'directory',
  'character_device',
  'block_device',
  'pipe',
  'socket',
  'anonymous',
  'unknown',
] as const;

export type FileKind = (typeof FILE_KINDS)[number];
