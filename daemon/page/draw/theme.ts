/** Colours. A colour shows the kind of work that took the time, never the service. */
import type { EventColumns } from '../../model/columns/event_columns.ts';

export type ThemeName = 'light' | 'dark';

/** Kinds of time, as indexes of a palette. */
export const KINDS = {
  neutral: 0,
  write: 1,
  sync: 2,
  read: 3,
  queue: 4,
  service: 5,
  /** Requests that do not belong to the picture's transactions. */
  other: 6,
  error: 7,
  /** Time that a what-if adds. */
  added: 8,
  selection: 9,
  rest: 10,
} as const;
export type ColorKind = keyof typeof KINDS;

/** Colours of each theme, as hex digits of red, green and blue. */
export const THEMES: Readonly<Record<ThemeName, Readonly<Record<ColorKind, string>>>> = {
  light: {
    neutral: '8d98a6',
    write: '00518f',
    sync: 'bd8200',
    read: '3a96d0',
    queue: 'b34700',
    service: '008a63',
    other: '8d98a6',
    error: 'b3261e',
    added: '8e2f86',
    selection: 'b65400',
    rest: '2166ac',
  },
  dark: {
    neutral: '66778b',
    write: '3d8fd1',
    sync: 'e6a820',
    read: '56b4e9',
    queue: 'e0703a',
    service: '1fb58a',
    other: '66778b',
    error: 'ff8a7a',
    added: 'e58ade',
    selection: 'ffa23e',
    rest: '6cb0ee',
  },
};

/**
 * Converts a colour to a pixel of a `Uint32Array` over image data. Red is the lowest byte, because every machine that
 * runs a browser is little-endian.
 */
export function toPixel(hex: string, alpha = 255): number {
  const value = Number.parseInt(hex, 16);
  const [red, green, blue] = [value >>> 16, (value >>> 8) & 255, value & 255];
  return ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Builds the pixels of a theme, indexed by the numbers of `KINDS`. */
export function buildPalette(theme: ThemeName): Uint32Array {
  const palette = new Uint32Array(Object.keys(KINDS).length);
  for (const [kind, at] of Object.entries(KINDS)) palette[at] = toPixel(THEMES[theme][kind as ColorKind]);
  return palette;
}

const KIND_OF_TYPE: ReadonlyMap<string, ColorKind> = new Map([
  ['sys_write', 'write'],
  ['sys_sync', 'sync'],
  ['sys_read', 'read'],
]);

/** Returns the kind of each event type, indexed by the type's id; an unknown type is neutral. */
export function buildTypeKinds({ types }: EventColumns): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, id) => KINDS[KIND_OF_TYPE.get(types.get(id) ?? '') ?? 'neutral']);
}
