/** Configures jest for `make check`: the suites that need a build only, and take a second or two. */
import { without } from '../../jest.config.js';
import { KINDS } from './kinds.ts';

export default without(Object.keys(KINDS));
