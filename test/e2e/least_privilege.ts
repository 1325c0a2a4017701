/** Starts an agent as an unprivileged user that has only the given capabilities. */
import { chownSync } from 'node:fs';
import { type Recorded, readRecording } from '../kernel/recorded_run.ts';
import { asNobodyWith, NOBODY } from '../unprivileged.ts';
import { type Running, start, temporaryFolder } from './kreplay.ts';

export interface OwnedFolder {
  path: string;
  remove(): void;
}

export function folderOfNobody(): OwnedFolder {
  const folder = temporaryFolder();
  chownSync(folder.path, NOBODY, NOBODY);
  return folder;
}

export interface LimitedAgent extends Running {
  folder: OwnedFolder;
  /** Ends it as Ctrl-C does, and returns what it recorded. */
  finish(): Promise<Recorded>;
}

/** Resolves when the agent records. `capabilities` are spelled as in setpriv(1). */
export async function startLimitedAgent(
  capabilities: readonly string[],
  flags: readonly string[] = [],
): Promise<LimitedAgent> {
  const folder = folderOfNobody();
  const agent = start(['agent', '--data', folder.path, ...flags], asNobodyWith(...capabilities));
  await agent.says('recording to');
  return {
    ...agent,
    folder,
    async finish() {
      agent.process.kill('SIGINT');
      const { status } = await agent.ended;
      if (status !== 0) throw new Error(`the agent ended with ${status}: ${agent.complaints()}`);
      return readRecording(folder.path);
    },
  };
}
