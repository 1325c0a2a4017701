import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Gauge, type Registry } from '@prometheus-io/client';

export function buildInfo(registry: Registry): void {
  const { version } = JSON.parse(readFileSync(createRequire(import.meta.url).resolve('#package'), 'utf8'));
  new Gauge({
    name: 'kreplay_build_info',
    help: 'Always 1; which kreplay answers, and the Node.js that runs it.',
    labelNames: ['version', 'node_version'],
    registers: [registry],
  }).set({ version, node_version: process.version }, 1);
}
