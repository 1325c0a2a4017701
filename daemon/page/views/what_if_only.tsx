/** Which events get the latency: of a type, a service, a node of the transaction. */
import type { Choices } from '../lanes/choices.ts';
import { usePage } from './context.ts';
import { shownName } from './names.ts';

export function WhatIfOnly({ choices: { types, services, nodes } }: { choices: Choices }) {
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

interface Props {
  label: string;
  /** Text of the choice that excludes nothing. */
  all: string;
  values: readonly string[];
  /** What the link has: it may be several, and none of the values. */
  chosen: readonly string[];
  onChoose: (chosen: string[]) => void;
}

function OneOf({ label, all, values, chosen, onChoose }: Props) {
  const names = [...new Set([...values, ...chosen])];
  // A choice among one excludes nothing.
  if (names.length < 2 && chosen.length === 0 && label !== 'Events that take longer') return null;
  const several = names.length;
  const at = chosen.length === 0 ? -1 : chosen.length === 1 ? names.indexOf(chosen[0]!) : several;
  return (
    <select
      aria-label={label}
      // Any text may be a name.
      value={String(at)}
      onChange={({ currentTarget }) => {
        const place = Number(currentTarget.value);
        if (place < several) onChoose(names.slice(place, place + 1).filter(() => place >= 0));
      }}
    >
      <option value="-1">{all}</option>
      {names.map((name, place) => (
        <option key={name} value={String(place)}>
          {shownName(name)}
        </option>
      ))}
      {at === several && <option value={String(several)}>{chosen.map(shownName).join(' or ')}</option>}
    </select>
  );
}
