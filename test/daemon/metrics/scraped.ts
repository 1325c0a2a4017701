/** Parses the Prometheus text exposition format by its rules. */

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/s;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"(?:,|$)/gy;
const ESCAPED: Record<string, string> = { '\\\\': '\\', '\\"': '"', '\\n': '\n' };

/** Throws for a line that is not a sample. */
export function samplesOf(text: string): Sample[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const match = SAMPLE.exec(line);
      if (!match) throw new Error(`not a sample: ${line}`);
      const [, name, labels = '', value] = match;
      return { name: name!, labels: labelsOf(labels), value: Number(value!.replace('+Inf', 'Infinity')) };
    });
}

function labelsOf(text: string): Record<string, string> {
  const found = [...text.matchAll(LABEL)];
  if (found.map(([whole]) => whole).join('') !== text) throw new Error(`not labels: ${text}`);
  return Object.fromEntries(
    found.map(([, name, value]) => [name!, value!.replace(/\\[\\"n]/g, (escaped) => ESCAPED[escaped]!)]),
  );
}

/** Values of the metric's samples that have these labels. */
export function valuesOf(samples: readonly Sample[], name: string, labels: Record<string, string> = {}): number[] {
  return samples
    .filter((sample) => sample.name === name && Object.entries(labels).every(([key, is]) => sample.labels[key] === is))
    .map(({ value }) => value);
}

export function total(samples: readonly Sample[], name: string, labels: Record<string, string> = {}): number {
  return valuesOf(samples, name, labels).reduce((sum, value) => sum + value, 0);
}
