/**
 * Shows one transaction and its replay. A sentence, a breakdown, lanes and a table show what the transaction waited
 * for.
 */

import { useCallback, useEffect, useMemo } from 'preact/hooks';
import type { ReceivedCoverage, ReceivedSession } from '../../contract/received.ts';
import { formatBursts } from '../../model/explanation/bursts.ts';
import { formatShortDuration } from '../../model/wording/exact_times.ts';
import { formatName } from '../../model/wording/names.ts';
import type { ReadLanes } from '../api/load_lanes.ts';
import { formatClockOffsets, type ParsedOffsets, parseClockOffsets } from '../link/clock_offsets.ts';
import { formatDuration, parseDuration } from '../numbers/duration_text.ts';
import { projectTimes } from '../replay/schedule.ts';
import { buildOnlyFilter, type NewSessionSettings } from '../replay/settings_in_link.ts';
import { BreakdownBar } from './breakdown_bar.tsx';
import { BurstLinks } from './bursts.tsx';
import { usePage } from './context.ts';
import { ExactField } from './duration_field.tsx';
import { FailureNote } from './failure_note.tsx';
import { LanesPanel, Losses } from './lanes_panel.tsx';
import { LargeTransaction } from './large_transaction.tsx';
import { PrintedEvents } from './print_note.tsx';
import { ReplayBar } from './replay_bar.tsx';
import { EVENTS_MAX, useLanes } from './use_lanes.ts';
import { usePlayed } from './use_played.ts';
import { WhatIf } from './what_if.tsx';

export function LanesView({ transactionId }: { transactionId: string }) {
  const { setCoverage } = usePage();
  const loaded = useLanes(transactionId);
  const { lanes, transaction, failure, isLoading, isOld, askAgain } = loaded;
  // The coverage of the lanes takes precedence: while they show only a part of the transaction, the coverage of the
  // whole transaction says nothing about them.
  const coverage = (lanes ?? transaction)?.coverage ?? null;
  useEffect(() => setCoverage(coverage), [coverage, setCoverage]);
  return (
    <main aria-busy={isLoading}>
      {isLoading && <div class="loading" />}
      {failure && <FailureNote failure={failure} onRetry={askAgain} />}
      {failure && isOld && <p class="loss">▲ Below is the picture with the earlier clock offsets.</p>}
      {transaction && transaction.event_count > EVENTS_MAX && <LargeTransaction transaction={transaction} />}
      {lanes && <Lanes {...{ transactionId, lanes, coverage, hasFailed: failure !== null }} />}
    </main>
  );
}

/** Maximum number of events for which added latency is drawn, because more would take longer than a frame. */
const PROJECTED_MAX = 100_000;

interface LanesProps {
  transactionId: string;
  lanes: ReadLanes;
  coverage: ReceivedCoverage | null;
  hasFailed: boolean;
}

function Lanes({ transactionId, lanes, coverage, hasFailed }: LanesProps) {
  const { model, choices, breakdown, sentence } = lanes;
  const bursts = lanes.bursts.map(({ fromNs, toNs }) => ({
    from: model.baseNs + BigInt(fromNs),
    to: model.baseNs + BigInt(toNs),
  }));
  const { link, announce, setSentence } = usePage();
  const isAllRead = lanes.isOthersCut !== null;
  useEffect(() => {
    if (!isAllRead) return;
    announce(sentence);
    setSentence(sentence);
    return () => setSentence(null);
  }, [isAllRead, sentence]);
  const clocks = useMemo(() => parseClockOffsets(link, choices.nodes), [link.clock_offset, choices]);
  const played = usePlayed(transactionId, model, clocks.offsets);
  const { replay, failure, playheadNs, playedRow, renew } = played;
  // `useCallback` returns the same function in all renderings: effects that keep a function of an earlier rendering
  // would also keep the events of that rendering in memory.
  const onPlay = useCallback(
    async (settings: NewSessionSettings) => {
      const opened = await renew(settings);
      await opened?.send('play');
    },
    [renew],
  );
  const latencyNs = Number(link.latency ?? 0n);
  const only = buildOnlyFilter(link);
  const times = useMemo(
    () => (latencyNs > 0 && model.columns.count <= PROJECTED_MAX ? projectTimes(model, { latencyNs, only }) : null),
    [model, latencyNs, JSON.stringify(only)],
  );

  return (
    <>
      <h1>{sentence}</h1>
      {bursts.length > 1 && (
        <p>
          <BurstLinks transaction={transactionId} words={formatBursts(lanes.bursts)} bursts={bursts} />
        </p>
      )}
      <Losses {...{ coverage, lanes, hasFailed }} />
      {breakdown && <BreakdownBar breakdown={breakdown} />}
      <ClockFields nodes={choices.nodes} clocks={clocks} session={replay?.session ?? null} />
      <LanesPanel {...{ lanes, times, playheadNs, playedRow }} name={formatName(transactionId)} />
      <WhatIf {...{ transactionId, choices, coverage, offsets: clocks.offsets }} onPlay={onPlay} />
      <PrintedEvents model={model} />
      {failure && <FailureNote failure={failure} />}
      <ReplayBar {...{ played, model, bursts }} />
    </>
  );
}

/*
 * Fields for offsets that are added to the times of each node of a transaction with several nodes. The recordings do
 * not show how far the clocks of their nodes differ, so the user sets the offsets.
 */

interface Props {
  nodes: readonly string[];
  clocks: ParsedOffsets;
  session: ReceivedSession | null;
}

const formatSignedDuration = (ns: bigint) => `${ns < 0n ? '' : '+'}${formatDuration(ns)}`;

function ClockFields({ nodes, clocks: { offsets, problems }, session }: Props) {
  const { go } = usePage();
  const set = (node: string, ns: bigint) =>
    go({ clock_offset: formatClockOffsets(new Map([...offsets, [node, ns]])) }, false);
  return (
    <>
      {problems.length > 0 && (
        <p class="failure" role="alert">
          Clock offsets that do not count: {problems.map(formatName).join('; ')}.
        </p>
      )}
      {nodes.length > 1 && (
        <section class="panel" aria-label="Clocks of the nodes">
          <div class="controls">
            <h2>Clocks</h2>
            {nodes.map((node) => (
              <span key={node}>
                {formatName(node)}
                <ExactField
                  label={`Added to the clock of ${formatName(node)}`}
                  text={formatSignedDuration(offsets.get(node) ?? 0n)}
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

/** Shows the offset that the session uses for a node, and whether it differs from the offset that is set here. */
function SessionClock({
  session,
  node,
  offsetNs,
}: {
  session: ReceivedSession | null;
  node: string;
  offsetNs: bigint;
}) {
  const clock = session?.clock.find((one) => one.node === node);
  if (!clock) return null;
  const texts = [
    clock.source !== 'none'
      ? `the replay adds ${formatSignedDuration(BigInt(clock.offset_ns))}`
      : 'the replay adds nothing',
    ...(BigInt(clock.stepped_ns) > 0n
      ? [`▲ it was set by ${formatShortDuration(BigInt(clock.stepped_ns))} meanwhile`]
      : []),
    ...(BigInt(clock.offset_ns) === offsetNs ? [] : ['▲ “Play it” makes one with this offset']),
  ];
  return <span class="quiet">{texts.join('; ')}</span>;
}
