/** `node daemon/contract/write.ts FILE`: the document of the API, for tools. */
import { writeFileSync } from 'node:fs';
import { stringify } from '../json.ts';
import { openApiDocument } from './openapi.ts';

writeFileSync(process.argv[2]!, stringify(openApiDocument()));
