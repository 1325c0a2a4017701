/** Tests the script name in an interpreter's command line: real command lines, option by option, and any others. */
import fc from 'fast-check';
import { NAME_LENGTH_MAX } from '../../../../agent/attribution/service_name/clean_name.ts';
import { findScriptName } from '../../../../agent/attribution/service_name/script_name.ts';

/** Splits the command line at blanks; the executable is the file name of the first word. */
function scriptOf(commandLine: string): string | undefined {
  const args = commandLine.split(' ');
  return findScriptName(args[0]!.split('/').at(-1)!, args);
}

test.each([
  ['python3 app.py', 'app'],
  ['/usr/bin/python3.11 /srv/shop/worker.py --queue mail', 'worker'],
  ['python3 /usr/bin/supervisord -c /etc/supervisord.conf', 'supervisord'],
  ['python manage.py runserver 0.0.0.0:8000', 'manage'],
  ['python3 -u -B app.py', 'app'],
  ['python3 -W ignore app.py', 'app'],
  ['python3 -Wignore app.py', 'app'],
  ['python3 -X dev app.py', 'app'],
  ['python3 -uX dev app.py', 'app'],
  ['python3 --check-hash-based-pycs never app.py', 'app'],
  ['python3 -- -app.py', '-app'],
  ['python3 -m http.server 8000', 'http.server'],
  ['python3 -mgunicorn shop.wsgi', 'gunicorn'],
  ['python3 -Im uvicorn shop:app', 'uvicorn'],
  ['python3 /srv/shop/', 'shop'],
  ['python3 shop.pyz', 'shop.pyz'],
])('Python: %s is %s', (commandLine, script) => expect(scriptOf(commandLine)).toBe(script));

test.each([
  ['node server.js', 'server'],
  ['nodejs /srv/shop/index.mjs', 'index'],
  ['node dist/main.cjs', 'main'],
  ['node src/main.ts', 'main'],
  ['node --require dotenv/config server.js', 'server'],
  ['node -r dotenv/config server.js', 'server'],
  ['node --import ./telemetry.mjs server.js', 'server'],
  ['node --import=./telemetry.mjs server.js', 'server'],
  ['node --env-file .env --title shop server.js', 'server'],
  ['node --max-old-space-size=512 --inspect --enable-source-maps server.js', 'server'],
  ['node --watch --inspect-port 0.0.0.0:9229 server.js', 'server'],
  ['node -c server.js', 'server'],
  ['node -- server.js', 'server'],
  ['node /usr/lib/node_modules/npm/bin/npm-cli.js install', 'npm-cli'],
])('Node: %s is %s', (commandLine, script) => expect(scriptOf(commandLine)).toBe(script));

test.each([
  ['ruby app.rb', 'app'],
  ['ruby3.1 -w -I lib -r bundler/setup app.rb', 'app'],
  ['ruby -Ilib -W0 -C /srv /usr/bin/puma', 'puma'],
  ['ruby --enable yjit -i.e app.rb', 'app'],
  ['perl report.pl', 'report'],
  ['perl -w -T -I lib -MPOSIX -Mwarnings=all report.pl', 'report'],
  ['perl -i.e -d:NYTProf report.pl', 'report'],
  ['php artisan queue:work', 'artisan'],
  ['php8.2 -d memory_limit=1G -c /etc/php.ini bin/console.php', 'console'],
  ['php -dmemory_limit=1G cron.php', 'cron'],
  ['php -f cron.php', 'cron'],
  ['php --file=cron.php', 'cron'],
  ['php -S localhost:8000 -t public router.php', 'router'],
  ['bash backup.sh', 'backup'],
  ['/bin/sh /app/docker-entrypoint.sh postgres', 'docker-entrypoint'],
  ['dash -eu /etc/cron.daily/logrotate', 'logrotate'],
  ['bash -euo pipefail backup.sh', 'backup'],
  ['bash -oe pipefail backup.sh', 'backup'],
  ['bash +x -O extglob backup.sh', 'backup'],
  ['bash +o posix backup.sh', 'backup'],
  ['bash --rcfile /etc/rc --norc backup.sh', 'backup'],
  ['sh - backup.sh', 'backup'],
  ['sh -- backup.sh', 'backup'],
])('%s is %s', (commandLine, script) => expect(scriptOf(commandLine)).toBe(script));

test.each([
  ['java -jar shop.jar', 'shop'],
  ['java -Xmx1g -Dspring.profiles.active=prod -jar /opt/shop/shop-1.4.2.jar --server.port=80', 'shop-1.4.2'],
  ['java -jar -Xmx1g shop.jar', 'shop'],
  ['java -javaagent:/opt/otel.jar -jar shop.war', 'shop.war'],
  ['java com.example.shop.Main 8080', 'com.example.shop.Main'],
  ['java -cp /opt/shop/lib/a.jar:/opt/b.jar com.example.Main', 'com.example.Main'],
  ['java -classpath a.jar com.example.Main', 'com.example.Main'],
  ['java --class-path a.jar com.example.Main', 'com.example.Main'],
  ['java --module-path mods com.example.Main', 'com.example.Main'],
  ['java --add-opens java.base/java.lang=ALL-UNNAMED com.example.Main', 'com.example.Main'],
  ['java --add-opens=java.base/java.lang=ALL-UNNAMED com.example.Main', 'com.example.Main'],
  ['java @/opt/shop/jvm.options com.example.Main', 'com.example.Main'],
  ['java -p mods -m shop/com.example.Main', 'com.example.Main'],
  ['java -p mods --module=shop/com.example.Main', 'com.example.Main'],
  ['java -p mods -m shop', 'shop'],
  ['java src/Main.java', 'Main'],
])('Java: %s is %s', (commandLine, script) => expect(scriptOf(commandLine)).toBe(script));

test.each([
  'python3',
  'python3 -',
  'python3 -c pass',
  'python3 -Ic pass',
  'python3 -m',
  'python3 -W',
  'node',
  'node -e 1 server.js',
  'node -p 1',
  'node -pe 1',
  'node --eval 1',
  'node --eval=1',
  'node --run start',
  'node --require',
  'node -',
  'ruby -e 1',
  'ruby -ne 1 log.txt',
  'perl -e 1 log.txt',
  'perl -lane print log.txt',
  'php -r 1',
  'php -S localhost:8000',
  'bash',
  '-bash',
  'bash -c ls backup.sh',
  'bash -lc ls',
  'bash -s backup',
  'bash -i',
  'bash /dev/fd/63',
  'bash -o',
  'sh -',
  'java',
  'java -version',
  'java -jar',
  'java -cp',
  'java -m',
  'nginx /etc/nginx.sh',
  'python3-config app.py',
  'nodemon app.js',
  'bashful app.sh',
  '',
])('%p has no script', (commandLine) => expect(scriptOf(commandLine)).toBeUndefined());

test.each([
  ['no arguments', [], undefined],
  ['an empty script', ['node', ''], undefined],
  ['the root', ['node', '/'], undefined],
  ['a name that is all extension', ['node', '.js'], '.js'],
  ['control characters', ['node', '/srv/a\n\x1b[31mb.js'], 'a[31mb'],
  ['a name of control characters', ['node', '\n'], undefined],
  ['a long name', ['node', 'x'.repeat(1000)], 'x'.repeat(NAME_LENGTH_MAX)],
])('%s', (_, args, script) => expect(findScriptName('node', args)).toBe(script));

test('any arguments give a short, clean name or none', () => {
  const executable = fc.constantFrom('python3', 'node', 'ruby', 'perl', 'php', 'bash', 'java', '', 'dd');
  const argument = fc.oneof(
    fc.constantFrom('-', '--', '-c', '-m', '-r', '-jar', '-o', '+', '--require', '--file=', '@', '/', '.js', 'a/b.sh'),
    fc.string({ unit: 'binary', maxLength: 400 }),
    fc.string({ unit: 'binary' }).map((text) => `-${text}`),
    fc.string({ unit: 'binary' }).map((text) => `--${text}`),
  );
  fc.assert(
    fc.property(executable, fc.array(argument), (name, args) => {
      const script = findScriptName(name, [name, ...args]) ?? 'x';
      expect(script).not.toBe('');
      expect(script.length).toBeLessThanOrEqual(NAME_LENGTH_MAX);
      expect(script).not.toMatch(/[\p{Cc}\p{Cs}]/u);
    }),
  );
});
