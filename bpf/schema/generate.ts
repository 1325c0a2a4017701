/** `make gen`: writes the generated files; with `--check` it only says whether they are fresh. */
import { readFileSync, writeFileSync } from 'node:fs';
import { cHeader } from './c_header.ts';
import { eventTables, replaceGenerated } from './docs.ts';

const root = process.argv[2] ?? '.';
const header = `${root}/bpf/gen/events.h`;
const readme = `${root}/README.md`;

writeFileSync(header, cHeader());
writeFileSync(readme, replaceGenerated(readFileSync(readme, 'utf8'), 'events', eventTables()));
