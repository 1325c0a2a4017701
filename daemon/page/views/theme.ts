/** Light or dark: as the system has it, unless the user has chosen. */
import { keptTexts } from '../access/kept_texts.ts';

const KEY = 'kreplay.theme';
const kept = keptTexts('localStorage');

export type Theme = 'light' | 'dark';

function chosen(): Theme | null {
  const text = kept.get(KEY);
  return text === 'light' || text === 'dark' ? text : null;
}

/** Paper is light. */
let isOnPaper = false;

export function currentTheme(): Theme {
  if (isOnPaper) return 'light';
  return chosen() ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
}

export function nextTheme(): Theme {
  return currentTheme() === 'dark' ? 'light' : 'dark';
}

/** Shows a theme; one that is given is remembered. Pictures listen to `themechange` to be drawn again. */
export function applyTheme(theme?: Theme): void {
  if (theme) kept.set(KEY, theme);
  document.documentElement.dataset.theme = currentTheme();
  window.dispatchEvent(new Event('themechange'));
}

/** Shows the light theme while the page is printed. */
export function showOnPaper(isPrinted: boolean): void {
  if (isPrinted === isOnPaper) return;
  isOnPaper = isPrinted;
  applyTheme();
}
