/** Writes the C header of the runner's file formats; `make gen` runs this script. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { buildCHeader } from './c_header.ts';

const FOLDER = new URL('../../../native/runner/gen/', import.meta.url);

mkdirSync(FOLDER, { recursive: true });
writeFileSync(new URL('format.h', FOLDER), buildCHeader());
