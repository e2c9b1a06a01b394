"""Runs a command on a terminal of its own and plays a person at it.

usage: person.py ROWSxCOLS STEP... -- COMMAND [ARG]...
A STEP is wait:TEXT (until it is shown), type:TEXT (Python escapes), size:ROWSxCOLS.
Prints what was shown, then "exit N" and whether the terminal is as it was before.
"""
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time


def set_size(fd, text):
    rows, cols = map(int, text.split("x"))
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def read_some(fd, shown, seconds):
    if select.select([fd], [], [], seconds)[0]:
        try:
            shown += os.read(fd, 65536)
        except OSError:
            return False
    return True


split = sys.argv.index("--")
master, slave = pty.openpty()
set_size(master, sys.argv[1])
before = termios.tcgetattr(slave)
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in range(3):
        os.dup2(slave, fd)
    os.execvp(sys.argv[split + 1], sys.argv[split + 1:])
shown, at, status = bytearray(), 0, None
for step in sys.argv[2:split]:
    what, text = step.split(":", 1)
    if what == "type":
        os.write(master, text.encode().decode("unicode_escape").encode("latin1"))
    elif what == "size":
        set_size(master, text)
    elif what == "wait":
        end = time.time() + 20
        while text.encode() not in shown[at:]:
            if time.time() > end:
                sys.exit("never shown: %s, but %r" % (text, bytes(shown)))
            read_some(master, shown, 0.1)
        at = shown.index(text.encode(), at) + len(text)
end = time.time() + 20
while time.time() < end:
    read_some(master, shown, 0.05)
    done, code = os.waitpid(pid, os.WNOHANG)
    if done:
        status = os.WEXITSTATUS(code) if os.WIFEXITED(code) else -os.WTERMSIG(code)
        break
read_some(master, shown, 0.1)
sys.stdout.write(shown.decode("latin1").replace("\r\n", "\n"))
print("\nexit", status)
print("restored" if termios.tcgetattr(slave) == before else "changed")
