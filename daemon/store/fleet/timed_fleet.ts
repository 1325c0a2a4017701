/** Measures how long a server takes for statements. */
import type { DecodedBlock } from '../../../agent/clickhouse/native/decode.ts';
import type { Fleet } from './fleet.ts';

/** `onStatement` is called at the end of each, also of one that failed or was given up, with its seconds. */
export function timedFleet(fleet: Fleet, onStatement: (seconds: number) => void): Fleet {
  const { connection } = fleet;
  return {
    ...fleet,
    connection: {
      ...connection,
      select: (statement, options) => timed(connection.select(statement, options), onStatement),
    },
  };
}

/** The time that the reader takes between blocks is not the server's. */
async function* timed(
  blocks: AsyncGenerator<DecodedBlock>,
  onStatement: (seconds: number) => void,
): AsyncGenerator<DecodedBlock> {
  let waitedMs = 0;
  try {
    for (;;) {
      const sinceMs = performance.now();
      let next: IteratorResult<DecodedBlock>;
      try {
        next = await blocks.next();
      } finally {
        waitedMs += performance.now() - sinceMs;
      }
      if (next.done) return;
      yield next.value;
    }
  } finally {
    await blocks.return(undefined);
    onStatement(waitedMs / 1000);
  }
}
