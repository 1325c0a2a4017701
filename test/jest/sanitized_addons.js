/** Loads the builds of the addons that sanitizers watch in the place of the others. */
import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

registerHooks({
  resolve(name, context, next) {
    const [, addon] = /^#(columns|tables)$/.exec(name) ?? [];
    if (!addon) return next(name, context);
    const url = pathToFileURL(`${import.meta.dirname}/../../build/sanitized/${addon}.node`).href;
    return { url, format: 'addon', shortCircuit: true };
  },
});
