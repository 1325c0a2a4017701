/** `kreplay services`: lists the services that own events. */
import { Command, Option } from 'commander';
import { addHelpEnd } from '../../../agent/config/help.ts';
import { escapeControls } from '../../../agent/output/printable.ts';
import { stringify } from '../../base/exact_json.ts';
import { callDaemon, readJson } from '../client/connection.ts';
import { addPlaceOptions, type PlaceOptions, runAtPlace } from '../options/place.ts';
import { print } from '../print/standard_output.ts';

interface Options extends PlaceOptions {
  output: 'text' | 'json';
}

export function createServicesCommand(): Command {
  const command = new Command('services')
    .description('list the services that own events')
    .addOption(new Option('--output <format>', 'text: one service per line').choices(['text', 'json']).default('text'));
  addPlaceOptions(command).action((options: Options) =>
    runAtPlace(options, async (url) => {
      const { services } = (await readJson(await callDaemon(url, { path: '/api/services' }))) as { services: string[] };
      const text = services.map((service) => `${escapeControls(service)}\n`).join('');
      await print(options.output === 'json' ? `${stringify({ services })}\n` : text);
    }),
  );
  return addHelpEnd(command, {
    examples: ['kreplay services', 'kreplay services --recording incident.kreplay --output json'],
  });
}
