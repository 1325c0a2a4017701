/** The recordings that are served, with the agent of each. */
import type { Readiness } from '../../feed/answers.ts';
import { shownName } from '../names.ts';

const MEANING: Readonly<Record<string, string>> = {
  recording: 'is recording',
  failing: 'runs, and cannot write: see its log',
  stopped: 'has ended',
  killed: 'was killed: it did not end by itself',
  silent: 'runs, and writes nothing',
  none: 'no agent ever wrote this recording',
};

export function Recordings({ readiness: { recordings, unreadable } }: { readiness: Readiness }) {
  return (
    <section class="panel">
      <h2>Recordings</h2>
      <div class="wide">
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Agent</th>
              <th scope="col">Alive until</th>
              <th scope="col">From</th>
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody>
            {recordings.map(({ recording_id, node, agent, source, damaged }) => (
              <tr key={recording_id}>
                <th scope="row">{shownName(node)}</th>
                <td>{MEANING[agent.state] ?? agent.state}</td>
                <td>{agent.alive_at ?? '–'}</td>
                <td>{source}</td>
                <td>{damaged ? '✕ parts of it cannot be read' : 'readable'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {unreadable.map(({ file, reason }) => (
        <p class="failure" key={file}>
          {file} cannot be read, and the others are served without it: {reason}
        </p>
      ))}
    </section>
  );
}
