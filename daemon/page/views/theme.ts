/** Chooses the light or the dark theme: the user's choice or, without a choice, the system's theme. */
import { createKeptTexts } from '../access/kept_texts.ts';

const KEY = 'kreplay.theme';
const kept = createKeptTexts('localStorage');

export type Theme = 'light' | 'dark';

function readChosenTheme(): Theme | null {
  const text = kept.get(KEY);
  return text === 'light' || text === 'dark' ? text : null;
}

/** Whether the page is being printed, which needs the light theme. */
let isOnPaper = false;

export function readCurrentTheme(): Theme {
  if (isOnPaper) return 'light';
  return readChosenTheme() ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
}

export function chooseNextTheme(): Theme {
  return readCurrentTheme() === 'dark' ? 'light' : 'dark';
}

/** Applies the present theme; a theme that is given is stored first. Pictures are drawn again on `themechange`. */
export function applyTheme(theme?: Theme): void {
  if (theme) kept.set(KEY, theme);
  document.documentElement.dataset.theme = readCurrentTheme();
  window.dispatchEvent(new Event('themechange'));
}

/** Shows the light theme while the page is printed. */
export function showOnPaper(isPrinted: boolean): void {
  if (isPrinted === isOnPaper) return;
  isOnPaper = isPrinted;
  applyTheme();
}
