/** `make gen`: writes the C header. */
import { writeFileSync } from 'node:fs';
import { buildCHeader } from './c_header.ts';

writeFileSync(new URL('../gen/events.h', import.meta.url), buildCHeader());
