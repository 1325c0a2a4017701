/** Where Debian's Chromium is: a suite with the word `page` runs if it is installed, and starts nothing else. */
import { existsSync } from 'node:fs';

/** With windows, which have an address bar and tabs, as a user has it. */
export const CHROMIUM = '/usr/bin/chromium';
/** Debian builds it from the same source: pages are the same, and take two thirds of the time without a window. */
const SHELL = '/usr/bin/chromium-headless-shell';

export const isInstalled = (): boolean => existsSync(CHROMIUM);

/** The program for pages that need no window: Chromium itself where the package of the other is not installed. */
export const programWithoutWindows = (): string => (existsSync(SHELL) ? SHELL : CHROMIUM);
