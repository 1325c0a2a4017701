/** Lists the keys of the page, with a switch that turns them on or off. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { areKeysOn, switchKeys } from './keys.ts';

const KEYS: readonly (readonly [keys: string, meaning: string])[] = [
  ['Space', 'play, pause'],
  ['. ,', 'one event forward, back'],
  ['Home End', 'to the start, to the end'],
  ['+ -', 'twice as fast, half as fast'],
  ['L Shift+L', 'more, less extra latency'],
  ['I', 'skip times in which nothing is under way, or not'],
  ['O', 'begin again at the end, or not'],
  ['W S', 'zoom in, out'],
  ['A D', 'pan left, right'],
  ['F', 'show all'],
  ['[ ]', 'the link before, after: from a call to its request, and back'],
  ['← →', 'the event before, after; within a table ↑ ↓'],
  ['← → ↑ ↓', 'on the map: move the box, with Shift change its size'],
  ['V', 'table or picture'],
  ['Y', 'copy the link'],
  ['T', 'light or dark'],
  ['1 2 3 4', 'Overview, Live, Compare, Health'],
  ['?', 'these keys'],
  ['Esc', 'close, unselect'],
];

export function HelpDialog({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [isOn, setIsOn] = useState(areKeysOn);
  useEffect(() => dialog.current!.showModal(), []);
  const toggle = () => {
    switchKeys(!isOn);
    setIsOn(!isOn);
  };
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <table>
        <tbody>
          {KEYS.map(([keys, meaning]) => (
            <tr key={keys}>
              <th scope="row">
                <kbd>{keys}</kbd>
              </th>
              <td>{meaning}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p>
        <label>
          <input type="checkbox" checked={isOn} onChange={toggle} /> use these keys
        </label>
      </p>
      <p>
        <a href="docs/guide/">The guide</a> and <a href="docs">the API</a> are on this daemon too.
      </p>
      <button type="button" onClick={() => dialog.current!.close()}>
        Close
      </button>
    </dialog>
  );
}
