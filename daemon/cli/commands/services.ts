/** `kreplay services`: lists the services that own events. */
import { Command, Option } from 'commander';
import { withHelpEnd } from '../../../agent/config/help.ts';
import { printable } from '../../../agent/output/printable.ts';
import { stringify } from '../../base/exact_json.ts';
import { callDaemon, readJson } from '../client/connection.ts';
import { atPlace, type PlaceOptions, withPlace } from '../options/place.ts';
import { print } from '../print/standard_output.ts';

interface Options extends PlaceOptions {
  output: 'text' | 'json';
}

export function servicesCommand(): Command {
  const command = new Command('services')
    .description('list the services that own events')
    .addOption(new Option('--output <format>', 'text: one service per line').choices(['text', 'json']).default('text'));
  withPlace(command).action((options: Options) =>
    atPlace(options, async (url) => {
      const { services } = (await readJson(await callDaemon(url, { path: '/api/services' }))) as { services: string[] };
      const text = services.map((service) => `${printable(service)}\n`).join('');
      await print(options.output === 'json' ? `${stringify({ services })}\n` : text);
    }),
  );
  return withHelpEnd(command, {
    examples: ['kreplay services', 'kreplay services --recording incident.kreplay --output json'],
  });
}
