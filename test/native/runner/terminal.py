"""Types at an interactive shell on a terminal of its own, which runs a command; prints what the screen shows."""
import os, pty, select, sys, time

# How long a screen stays as it is before it counts as finished; a command that starts slowly needs more.
QUIET_S = float(os.environ.get('QUIET_S', '0.7'))
GIVE_UP_S = 20


def read_until_quiet(terminal):
    shown = b''
    until = time.monotonic() + GIVE_UP_S
    while time.monotonic() < until and select.select([terminal], [], [], QUIET_S)[0]:
        try:
            shown += os.read(terminal, 4096)
        except OSError:
            break
    return shown


pid, terminal = pty.fork()
if pid == 0:
    os.execvp('bash', ['bash', '--norc', '--noediting', '-i'])
shown = read_until_quiet(terminal)
for typed in [' '.join(sys.argv[2:]) + '; echo "code $?"\n'] + sys.argv[1].encode().decode('unicode_escape').split('|'):
    os.write(terminal, typed.encode())
    shown += read_until_quiet(terminal)
os.write(terminal, b'exit\nexit\n')
shown += read_until_quiet(terminal)
os.close(terminal)
os.waitpid(pid, 0)
sys.stdout.write(shown.decode())
