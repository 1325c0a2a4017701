/** Tests the accounts of a fleet: what each may do, and that fleets on one server share none. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from '../../../../agent/clickhouse/connection/connection.ts';
import { createBlockEncoder } from '../../../../agent/clickhouse/native/encode.ts';
import {
  buildAccountStatements,
  buildAccountsFile,
  hashPassword,
  ROLES,
  refuseSharedAccounts,
} from '../../../../agent/clickhouse/tables/accounts.ts';
import { columnOf } from '../../../clickhouse/columns.ts';

const hashes = new Map(ROLES.map((role) => [role, hashPassword(role)]));
const accountsOf = (prefix: string) => ({ database: 'kreplay', prefix, hashes });
const statements = (prefix: string) => buildAccountStatements(accountsOf(prefix)).map(({ text }) => text);

describe('the accounts', () => {
  const granted = statements('kr_');

  test('of nodes may write what nodes ship, and read no events', () => {
    const ship = granted.filter((text) => text.startsWith('GRANT') && text.includes('kr_ship'));
    expect(ship).toContain('GRANT INSERT ON `kreplay`.`event` TO `kr_ship`');
    expect(ship).toContain('GRANT SELECT ON `kreplay`.`meta` TO `kr_ship`');
    expect(ship.filter((text) => /SELECT.*(\*|`event`|pin)|ALTER|CREATE/.test(text))).toEqual([
      'GRANT SELECT(`recording`, `number`, `timestamp_ns`, `duration_ns`) ON `kreplay`.`event` TO `kr_ship`',
    ]);
    expect(ship).toContain(
      'GRANT SELECT(`recording`, `first_number`, `end_number`) ON `kreplay`.`segment` TO `kr_ship`',
    );
  });

  test('of daemons only read, and one of them writes pins', () => {
    const read = granted.filter((text) => text.includes('kr_read') && text.startsWith('GRANT'));
    expect(read.filter((text) => !text.startsWith('GRANT SELECT ON'))).toEqual([]);
    const pin = granted.filter(
      (text) => text.includes('kr_pin') && /INSERT|ALTER/.test(text) && text.startsWith('GRANT'),
    );
    expect(pin.map((text) => /`kreplay`.`(\w+)`/.exec(text)![1])).toEqual([
      'pin',
      'pinned_event',
      'pinned_by_id',
      'pinned_transaction',
    ]);
  });

  test('that make tables over all shards may do so, in a cluster only', () => {
    const inCluster = buildAccountStatements({ ...accountsOf('kr_'), cluster: 'main' }).map(({ text }) => text);
    const added = inCluster.filter((text) => !granted.includes(text) && text.startsWith('GRANT'));
    expect(added).toEqual(['GRANT REMOTE ON *.* TO `kr_admin`']);
  });

  test('of daemons may leave out shards that are away, in a cluster only', () => {
    const inCluster = buildAccountStatements({ ...accountsOf('kr_'), cluster: 'main' }).map(({ text }) => text);
    const allowing =
      /^ALTER SETTINGS PROFILE `kr_read` SETTINGS readonly = 1, .*, skip_unavailable_shards = 0 CHANGEABLE_IN_READONLY$/;
    expect(inCluster.at(-1)).toMatch(allowing);
    expect(granted.join()).not.toContain('skip_unavailable_shards');
    expect(buildAccountsFile(accountsOf('kr_'))).toContain('<readonly>1</readonly>');
    expect(buildAccountsFile({ ...accountsOf('kr_'), cluster: 'main' })).toContain('<readonly>2</readonly>');
  });

  test('get changed limits when they are made again', () => {
    const limits = / SETTINGS PROFILE (?:IF NOT EXISTS )?`kr_read` SETTINGS readonly = 1, max_execution_time = \d+/;
    expect(granted.filter((text) => limits.test(text)).map((text) => text.split(' ')[0])).toEqual(['CREATE', 'ALTER']);
  });

  test('have hashes and no passwords in statements', () => {
    expect(granted.filter((text) => /IDENTIFIED (?!WITH sha256_hash BY '[0-9a-f]{64}')/.test(text))).toEqual([]);
  });
});

describe('accounts of another prefix', () => {
  test('have no name of the first ones, in statements and in the file', () => {
    const text = [...statements('b_'), buildAccountsFile(accountsOf('b_'))].join('\n');
    expect(text).not.toContain('kr_');
    expect(text.replaceAll('b_', 'kr_')).toBe([...statements('kr_'), buildAccountsFile(accountsOf('kr_'))].join('\n'));
  });

  test('are needed where an account has rights in another database', async () => {
    let shared: [account: string, database: string][] = [];
    const asked: string[] = [];
    // No newer server with accounts can be run here: this one answers like it.
    const server = createServer(async (request, response) => {
      asked.push(Buffer.concat(await request.toArray()).toString());
      const names = shared.map(([account]) => account);
      const others = shared.map(([, other]) => other);
      const columns = [columnOf('account', 'String', names), columnOf('other', 'String', others)];
      response.end(createBlockEncoder().encode(columns, shared.length));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
    const connection = connect({ urls: [url], database: 'kreplay' });
    await refuseSharedAccounts(connection, accountsOf('kr_'));
    shared = [['kr_ship', 'tenant']];
    await expect(refuseSharedAccounts(connection, accountsOf('kr_'))).rejects.toThrow(
      /the account kr_ship has rights in the database tenant: pass --account-prefix NAME_/,
    );
    expect(asked[0]).toContain(`user_name IN (unhex('${Buffer.from('kr_ship').toString('hex')}')`);
    connection.close();
    server.close();
  });
});
