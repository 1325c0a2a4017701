/** `node daemon/server/write_contract.ts FILE`: writes the API's document for other tools. */
import { writeFileSync } from 'node:fs';
import { stringify } from '../base/exact_json.ts';
import { openApiDocument } from '../contract/openapi.ts';

writeFileSync(process.argv[2]!, stringify(openApiDocument()));
