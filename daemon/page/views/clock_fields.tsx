/** What is added to the times of each node, where a transaction has several: no recording knows how far clocks differ. */
import type { Session } from '../feed/answers.ts';
import { formatClockOffsets, type ParsedOffsets } from '../link/clock_offsets.ts';
import { durationText, parseDuration } from '../numbers/duration_text.ts';
import { shortDuration } from '../numbers/exact_times.ts';
import { usePage } from './context.ts';
import { ExactField } from './duration_field.tsx';
import { shownName } from './names.ts';

interface Props {
  nodes: readonly string[];
  clocks: ParsedOffsets;
  session: Session | null;
}

const signed = (ns: bigint) => `${ns < 0n ? '' : '+'}${durationText(ns)}`;

export function ClockFields({ nodes, clocks: { offsets, problems }, session }: Props) {
  const { go } = usePage();
  const set = (node: string, ns: bigint) =>
    go({ clock_offset: formatClockOffsets(new Map([...offsets, [node, ns]])) }, false);
  return (
    <>
      {problems.length > 0 && (
        <p class="failure" role="alert">
          Clock offsets that do not count: {problems.map(shownName).join('; ')}.
        </p>
      )}
      {nodes.length > 1 && (
        <section class="panel" aria-label="Clocks of the nodes">
          <div class="controls">
            <h2>Clocks</h2>
            {nodes.map((node) => (
              <span key={node}>
                {shownName(node)}
                <ExactField
                  label={`Added to the clock of ${shownName(node)}`}
                  text={signed(offsets.get(node) ?? 0n)}
                  onText={(text) => {
                    const ns = parseDuration(text);
                    if (ns === null) return 'a duration with a sign, such as +1.5 ms';
                    set(node, ns);
                    return null;
                  }}
                />
                <SessionClock session={session} node={node} offsetNs={offsets.get(node) ?? 0n} />
              </span>
            ))}
          </div>
          <p class="quiet">
            Times are as each node recorded them, plus this. No recording knows how far one clock was from another.
          </p>
        </section>
      )}
    </>
  );
}

/** What the session's clock differs by from what is set here. */
function SessionClock({ session, node, offsetNs }: { session: Session | null; node: string; offsetNs: bigint }) {
  const clock = session?.clock.find((one) => one.node === node);
  if (!clock) return null;
  const texts = [
    clock.source !== 'none' ? `the replay adds ${signed(BigInt(clock.offset_ns))}` : 'the replay adds nothing',
    ...(BigInt(clock.stepped_ns) > 0n ? [`▲ it was set by ${shortDuration(BigInt(clock.stepped_ns))} meanwhile`] : []),
    ...(BigInt(clock.offset_ns) === offsetNs ? [] : ['▲ “Play it” makes one with this offset']),
  ];
  return <span class="quiet">{texts.join('; ')}</span>;
}
