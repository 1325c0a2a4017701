/** How an event's owner was determined and how certain that is. Stored as the index: append only. */
export const ATTRIBUTION_SOURCES = ['none', 'marker', 'inherited', 'env', 'otel', 'http', 'origin'] as const;
export const ATTRIBUTION_QUALITIES = ['none', 'exact', 'inherited', 'shared', 'ambiguous'] as const;

export type AttributionSource = (typeof ATTRIBUTION_SOURCES)[number];
export type AttributionQuality = (typeof ATTRIBUTION_QUALITIES)[number];

/** Kind of a file. Stored as the word. */
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
