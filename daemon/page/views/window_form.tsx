/** Chooses what the page is about: a service, a node, a window of time, only what failed. */
import { useEffect, useState } from 'preact/hooks';
import { usePage } from './context.ts';
import { shownName } from './names.ts';

const MINUTE_NS = 60_000_000_000n;
const WINDOWS: readonly (readonly [label: string, minutes: bigint])[] = [
  ['last 5 minutes', 5n],
  ['last 15 minutes', 15n],
  ['last hour', 60n],
  ['last day', 1440n],
];

export function WindowForm() {
  const { daemon, link, go } = usePage();
  const [services, setServices] = useState<string[]>([]);
  const [nodes, setNodes] = useState<string[]>([]);
  useEffect(() => {
    // Without these lists the fields have only what the link says; the view itself reports that the daemon is gone.
    daemon.askJson<{ services: string[] }>('/api/services').then(
      ({ services: all }) => setServices(all),
      () => {},
    );
    daemon.askJson<{ nodes: string[] }>('/api/nodes').then(
      ({ nodes: all }) => setNodes(all),
      () => {},
    );
  }, [daemon]);
  const chooseWindow = (minutes: string) => {
    if (minutes === '') return go({ from: null, to: null });
    const nowNs = BigInt(Date.now()) * 1_000_000n;
    go({ from: nowNs - BigInt(minutes) * MINUTE_NS, to: null });
  };
  return (
    <form class="filters" onSubmit={(event) => event.preventDefault()}>
      <Choice
        label="Service"
        all="all services"
        values={services}
        value={link.service[0] ?? null}
        onChoose={(service) => go({ service: service === null ? [] : [service] })}
      />
      <Choice
        label="Node"
        all="all nodes"
        values={nodes}
        value={link.node[0] ?? null}
        onChoose={(node) => go({ node: node === null ? [] : [node] })}
      />
      <label>
        Window
        <select
          value={link.from === null ? '' : 'set'}
          onChange={({ currentTarget }) => chooseWindow(currentTarget.value)}
        >
          <option value="">everything recorded</option>
          {link.from !== null && <option value="set">as in the link</option>}
          {WINDOWS.map(([label, minutes]) => (
            <option key={label} value={minutes.toString()}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <label>
        <input
          type="checkbox"
          checked={link.has_error}
          onChange={({ currentTarget }) => go({ has_error: currentTarget.checked })}
        />
        with failed calls only
      </label>
    </form>
  );
}

interface ChoiceProps {
  label: string;
  all: string;
  values: readonly string[];
  value: string | null;
  onChoose: (value: string | null) => void;
}

function Choice({ label, all, values, value, onChoose }: ChoiceProps) {
  const shown = value === null || values.includes(value) ? values : [value, ...values];
  return (
    <label>
      {label}
      <select value={value ?? ''} onChange={({ currentTarget }) => onChoose(currentTarget.value || null)}>
        <option value="">{all}</option>
        {shown.map((name) => (
          <option key={name} value={name}>
            {shownName(name)}
          </option>
        ))}
      </select>
    </label>
  );
}
