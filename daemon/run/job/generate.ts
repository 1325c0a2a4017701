/** Writes the GitHub action; `make gen` runs this script. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildGitHubAction } from './github.ts';

writeFileSync(join(import.meta.dirname, '../../package/github_action/action.yml'), buildGitHubAction());
