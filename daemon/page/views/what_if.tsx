/**
 * Shows the effect of two assumptions on a transaction and on similar transactions: that chosen events take longer,
 * and that the caller waits no longer than a deadline.
 */

import { useEffect, useRef } from 'preact/hooks';
import { I64_MAX } from '../../base/bigints.ts';
import type { ReceivedCoverage } from '../../contract/received.ts';
import { groupDigits } from '../../model/wording/exact_times.ts';
import { formatName } from '../../model/wording/names.ts';
import type { Choices } from '../lanes/choices.ts';
import type { LinkedClockOffsets } from '../link/clock_offsets.ts';
import { buildOnlyFilter, type NewSessionSettings } from '../replay/settings_in_link.ts';
import { LATENCIES, TIMEOUTS } from '../what_if/scale.ts';
import { describeDeadline, describeProjection } from '../what_if/words.ts';
import { usePage } from './context.ts';
import { DurationField } from './duration_field.tsx';
import { FailureNote } from './failure_note.tsx';
import { type ProjectionChoice, type ShownProjection, useChosen, useProjection } from './use_projection.ts';
import { WhatIfOthers } from './what_if_others.tsx';

/** Limits of the API, in nanoseconds. */
const LATENCY_NS_MAX = 3_600_000_000_000n;
const TIMEOUT_NS_MAX = I64_MAX;
const FOR_EVER = 'as long as it takes';

interface Props {
  transactionId: string;
  choices: Choices;
  /** Coverage of the events; null while the events are being read. */
  coverage: ReceivedCoverage | null;
  offsets: LinkedClockOffsets;
  onPlay: (settings: NewSessionSettings) => Promise<void>;
}

export function WhatIf({ transactionId, choices, coverage, offsets, onPlay }: Props) {
  const { link, access, announce } = usePage();
  const [chosen, choose] = useChosen();
  const shown = useProjection(transactionId, offsets, chosen, coverage !== null);
  const isTouched = useRef(false);
  const change = (changed: Partial<ProjectionChoice>) => {
    isTouched.current = true;
    choose(changed);
  };
  const mayPlay = access.scopes.includes('replay:control');
  const { latencyNs, timeoutNs } = chosen;
  const { answer, projection } = shown;
  useEffect(() => {
    if (!answer || !projection || !isTouched.current) return;
    announce(
      `It ${describeProjection(projection)}; ${describeDeadline(projection, timeoutNs, answer.in_progress_times_out)}.`,
    );
  }, [answer]);
  return (
    <section class="panel what-if" aria-label="What if">
      <div class="controls">
        <h2>What if</h2>
        <span>every</span>
        <WhatIfOnly choices={choices} />
        <span>takes longer by</span>
        <DurationField
          {...{ label: 'Extra latency', scale: LATENCIES, value: latencyNs, leastNs: 0n, mostNs: LATENCY_NS_MAX }}
          onValue={(ns) => change({ latencyNs: ns ?? 0n })}
        />
        <span>and the caller waits</span>
        <DurationField
          {...{ label: 'Deadline', scale: TIMEOUTS, value: timeoutNs, none: FOR_EVER }}
          {...{ leastNs: 1n, mostNs: TIMEOUT_NS_MAX }}
          onValue={(ns) => change({ timeoutNs: ns })}
        />
        <button
          type="button"
          disabled={!mayPlay}
          title={mayPlay ? 'makes a replay with these settings' : 'needs a token with the scope replay:control'}
          onClick={() =>
            void onPlay({ extra_latency_ns: latencyNs, timeout_ns: timeoutNs, only: buildOnlyFilter(link) }).catch(
              () => {},
            )
          }
        >
          Play it
        </button>
      </div>
      <Answer {...{ shown, timeoutNs }} isAtLeast={coverage !== null && !coverage.complete} />
      <WhatIfOthers {...{ chosen, offsets }} ownService={choices.services[0] ?? null} />
      <p class="quiet">
        Later events of the same thread move; those of other threads stay, also where they wait for it. Data that is
        written back later is no part of it.
      </p>
    </section>
  );
}

interface AnswerProps {
  shown: ShownProjection;
  timeoutNs: bigint | null;
  isAtLeast: boolean;
}

function Answer({ shown, timeoutNs, isAtLeast }: AnswerProps) {
  const { projection, answer, affected, isOther, failure, askAgain } = shown;
  return (
    <>
      {failure && <FailureNote failure={failure} onRetry={askAgain} />}
      {projection && (
        <p class="figures projection">
          <strong>
            {isAtLeast && '▲ at least: '}
            {describeProjection(projection)}
          </strong>
          <span>{describeDeadline(projection, timeoutNs, answer?.in_progress_times_out)}</span>
          {affected && (
            <span class="quiet">
              {groupDigits(affected.affected_count)} of {groupDigits(affected.event_count)} events get it
            </span>
          )}
        </p>
      )}
      {isOther && <p class="loss">▲ The daemon computed otherwise than this page. Its answer is shown.</p>}
    </>
  );
}

/* Chooses the events that get the latency, by event type, service and node of the transaction. */

function WhatIfOnly({ choices: { types, services, nodes } }: { choices: Choices }) {
  const { link, go } = usePage();
  return (
    <>
      <OneOf
        {...{ label: 'Events that take longer', all: 'call', values: types, chosen: link.only_event_type }}
        onChoose={(only_event_type) => go({ only_event_type }, false)}
      />
      <OneOf
        {...{ label: 'of the service', all: 'of any service', values: services, chosen: link.only_service }}
        onChoose={(only_service) => go({ only_service }, false)}
      />
      <OneOf
        {...{ label: 'on the node', all: 'on any node', values: nodes, chosen: link.only_node }}
        onChoose={(only_node) => go({ only_node }, false)}
      />
    </>
  );
}

interface OnlyProps {
  label: string;
  /** Text of the option that excludes nothing. */
  all: string;
  values: readonly string[];
  /** Values of the link: there may be several, and they need not be among `values`. */
  chosen: readonly string[];
  onChoose: (chosen: string[]) => void;
}

function OneOf({ label, all, values, chosen, onChoose }: OnlyProps) {
  const names = [...new Set([...values, ...chosen])];
  // A choice among fewer than two values has no effect, so it is hidden; only the choice of event types is always
  // shown.
  if (names.length < 2 && chosen.length === 0 && label !== 'Events that take longer') return null;
  const several = names.length;
  const at = chosen.length === 0 ? -1 : chosen.length === 1 ? names.indexOf(chosen[0]!) : several;
  return (
    <select
      aria-label={label}
      // Option values are numbers, because a name may be any text.
      value={String(at)}
      onChange={({ currentTarget }) => {
        const place = Number(currentTarget.value);
        if (place < several) onChoose(names.slice(place, place + 1).filter(() => place >= 0));
      }}
    >
      <option value="-1">{all}</option>
      {names.map((name, place) => (
        <option key={name} value={String(place)}>
          {formatName(name)}
        </option>
      ))}
      {at === several && <option value={String(several)}>{chosen.map(formatName).join(' or ')}</option>}
    </select>
  );
}
