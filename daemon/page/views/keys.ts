/** Handles keys for the whole page, except while the user types in a field or uses a shortcut of the browser. */
import { useLayoutEffect, useRef } from 'preact/hooks';
import { createKeptTexts } from '../access/kept_texts.ts';
import { nameKey, SIGNS } from './key_name.ts';

/** Handles a key by its name from `nameKey`; returns whether the key was used. */
export type KeyHandler = (key: string, target: Element) => boolean;

const TYPING = 'input:not([type=range]):not([type=checkbox]), textarea, select, [contenteditable]';
/** Elements that handle the space bar and Enter themselves. */
const PRESSED = 'button, a, summary, input[type=checkbox]';
const SWITCH = 'kreplay.keys';
const kept = createKeptTexts('localStorage');

/** Whether the page's keys are on: some assistive programs need all keys for themselves (WCAG 2.1.4). */
export function areKeysOn(): boolean {
  return kept.get(SWITCH) !== 'off';
}

export function switchKeys(isOn: boolean): void {
  kept.set(SWITCH, isOn ? null : 'off');
}

/** Calls `handler` for each key while the component is shown; after a new rendering, calls the new handler. */
export function useKeys(handler: KeyHandler): void {
  const latest = useRef(handler);
  latest.current = handler;
  // Preact ends a plain effect one frame after its component is removed. On a busy page, a key can come within this
  // frame, so a layout effect is used.
  useLayoutEffect(() => {
    const listener = (event: KeyboardEvent) => {
      const target = event.target instanceof Element ? event.target : document.body;
      const { key, altKey } = event;
      // Many keyboards write [ and ] with Option or with AltGr, which is Control and Alt in Windows.
      const isSign = altKey && SIGNS.includes(key);
      if (event.defaultPrevented || event.metaKey || ((event.ctrlKey || altKey) && !isSign) || !areKeysOn()) return;
      if (target.closest(TYPING) || document.querySelector('dialog[open]')) return;
      if ((key === ' ' || key === 'Enter') && target.closest(PRESSED)) return;
      if (latest.current(nameKey(event), target)) event.preventDefault();
    };
    window.addEventListener('keydown', listener);
    return () => window.removeEventListener('keydown', listener);
  }, []);
}
