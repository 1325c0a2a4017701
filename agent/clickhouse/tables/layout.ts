/** The permanent layout of all tables of a fleet. It is read from all servers before any server is changed. */
import { UserError } from '../../process/errors.ts';
import { nameDistributedTable } from './ddl.ts';
import type { Found } from './found.ts';
import { BUCKET_NS_DEFAULT, buildTables, SCHEMA_VERSION } from './schema.ts';

export interface TableLayout {
  bucketNs: bigint;
  cluster?: string | undefined;
  storagePolicy?: string | undefined;
}

/** The layout that an operator requests. */
export type WantedLayout = { [Name in keyof TableLayout]?: TableLayout[Name] | undefined };

/**
 * The layout that a server's tables have. A value is undefined if the tables do not show it; '' means no cluster or no
 * policy.
 */
interface Said {
  place: string;
  bucketNs: bigint | undefined;
  isReplicated: boolean | undefined;
  cluster: string | undefined;
  storagePolicy: string | undefined;
}

const NAMES = buildTables(BUCKET_NS_DEFAULT).map(({ name }) => name);
const BUCKETED = ['event', 'pinned_event'];

/**
 * Returns the layout of the servers, completed by the wanted layout. Throws a UserError if the servers' layouts differ
 * from each other or from the wanted layout.
 */
export function chooseLayout(founds: readonly Found[], wanted: WantedLayout, database: string): TableLayout {
  for (const { place, draft } of founds)
    if ((draft?.schemaVersion ?? 0) > SCHEMA_VERSION)
      throw new UserError(
        `the tables of ${database} at ${place} have schema ${draft!.schemaVersion}, this kreplay knows ${SCHEMA_VERSION}: use the newer kreplay`,
      );
  const said = founds.map((found) => interpretFound(found, database));
  const bucketNs = findAgreedValue(said, ({ bucketNs }) => bucketNs, formatBucketText);
  if (bucketNs !== undefined && (wanted.bucketNs ?? bucketNs) !== bucketNs)
    throw new UserError(
      `the tables of ${database} have ${formatBucketText(bucketNs)}, which cannot change: leave out --bucket`,
    );
  const storagePolicy = findAgreedValue(said, ({ storagePolicy }) => storagePolicy, formatPolicyText);
  if (storagePolicy !== undefined && (wanted.storagePolicy ?? storagePolicy) !== storagePolicy) {
    const instead = storagePolicy === '' ? '' : `pass --storage-policy ${storagePolicy}, or `;
    throw new UserError(
      `the tables of ${database} have ${formatPolicyText(storagePolicy)}: ${instead}leave out --storage-policy`,
    );
  }
  return {
    bucketNs: bucketNs ?? wanted.bucketNs ?? BUCKET_NS_DEFAULT,
    cluster: chooseCluster(said, wanted.cluster, database) || undefined,
    storagePolicy: (storagePolicy ?? wanted.storagePolicy) || undefined,
  };
}

const formatBucketText = (ns: bigint): string => `buckets of ${ns} ns`;
const formatPolicyText = (policy: string): string =>
  policy === '' ? 'no storage policy' : `the storage policy ${policy}`;
const formatReplicationText = (isReplicated: boolean): string => `${isReplicated ? '' : 'un'}replicated tables`;

function chooseCluster(said: readonly Said[], wanted: string | undefined, database: string): string | undefined {
  const isReplicated = findAgreedValue(said, ({ isReplicated }) => isReplicated, formatReplicationText);
  if (isReplicated === false && wanted !== undefined)
    throw new UserError(`the tables of ${database} are not replicated: leave out --cluster`);
  const cluster = findAgreedValue(
    said,
    ({ cluster }) => cluster || undefined,
    (name) => `tables of the cluster ${name}`,
  );
  if (isReplicated && cluster !== undefined && (wanted ?? cluster) !== cluster)
    throw new UserError(
      `the tables of ${database} are replicated in the cluster ${cluster}: pass --cluster ${cluster}, or leave it out`,
    );
  if (isReplicated && cluster === undefined && wanted === undefined)
    throw new UserError(
      `the tables of ${database} are replicated, but none says in which cluster: pass --cluster NAME`,
    );
  return isReplicated === false ? undefined : (cluster ?? wanted);
}

function findAgreedValue<T>(
  said: readonly Said[],
  read: (one: Said) => T | undefined,
  formatValue: (value: T) => string,
): T | undefined {
  const [first, ...others] = said.filter((one) => read(one) !== undefined);
  const value = first && read(first);
  const other = others.find((one) => read(one) !== value);
  if (other)
    throw new UserError(
      `${first!.place} has ${formatValue(value!)}, ${other.place} has ${formatValue(read(other)!)}: they are not of one fleet, so name only those that are`,
    );
  return value;
}

function interpretFound({ place, tables, draft }: Found, database: string): Said {
  const own = NAMES.filter((name) => tables.has(name));
  const getEngine = (name: string): string => tables.get(name)?.engine ?? '';
  const isReplicated = (name: string): boolean => getEngine(name).startsWith('Replicated');
  const alone = own.find((name) => !isReplicated(name));
  const replicated = own.find(isReplicated);
  if (alone !== undefined && replicated !== undefined)
    throw new UserError(
      `${place}: ${database}.${replicated} is replicated, ${database}.${alone} is not: drop the one that is wrong, and run the command again`,
    );
  const foundCluster = own
    .map((name) => /^Distributed\(['`]?(\w+)/.exec(getEngine(nameDistributedTable(name)))?.[1])
    .find(Boolean);
  const policy = /storage_policy = '([^']*)'/.exec(getEngine(own.includes('event') ? 'event' : (own[0] ?? '')))?.[1];
  return {
    place,
    bucketNs: findBucketNs({ place, tables, draft }, database),
    isReplicated: own.length > 0 ? replicated !== undefined : undefined,
    cluster: draft?.cluster ?? foundCluster,
    storagePolicy: own.length > 0 ? (draft?.storagePolicy ?? policy ?? '') : undefined,
  };
}

/** Finds the length of a bucket in `meta` and in the expression of each column `bucket`; all of them must agree. */
function findBucketNs({ place, tables, draft }: Omit<Found, 'hasDatabase'>, database: string): bigint | undefined {
  const places = new Map<string, bigint>(draft ? [['meta', draft.bucketNs]] : []);
  for (const name of BUCKETED.flatMap((name) => [name, nameDistributedTable(name)])) {
    const column = tables.get(name)?.columns.get('bucket');
    const ns = /^toUInt32\(intDiv\(`?timestamp_ns`?, (\d+)\)\)$/.exec(column?.expression ?? '')?.[1];
    if (ns !== undefined) places.set(name, BigInt(ns));
    else if (column)
      throw new UserError(
        `${place}: the column bucket of ${database}.${name} is not of kreplay: choose another database`,
      );
  }
  const [first, ...others] = places;
  const other = others.find(([, ns]) => ns !== first![1]);
  if (other)
    throw new UserError(
      `${place}: ${database}.${first![0]} says ${formatBucketText(first![1])}, ${database}.${other[0]} has ${formatBucketText(other[1])}: drop the one that is wrong, or choose another database`,
    );
  return first?.[1];
}
