# SPDX-License-Identifier: Apache-2.0
"""A program in a pseudo terminal, and what a user would see there. The terminal understands what
terminfo says that TERM does, and fails on anything else: what it does not know would be garbage on
a real one."""
import codecs
import errno
import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
import unicodedata

from settings import HANG_S

TERM = "xterm-256color"
KEYS = {"up": "\033OA", "down": "\033OB", "page-up": "\033[5~", "page-down": "\033[6~",
        "home": "\033OH", "end": "\033OF", "enter": "\r", "escape": "\033"}
SEQUENCE = re.compile(r"\033(?:\[(?P<private>\??)(?P<args>[0-9;]*)(?P<final>[A-Za-z@`])"
                      r"|\][0-9;]*\a|[()][0AB]|(?P<single>[=>78M]))")
# Switches that are known; 25 is the cursor, 1049 the other screen.
MODES = {1, 7, 12, 25, 1049, 2004}


def columns_of(char):
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


class Screen:
    """Rows of characters; "" is the second half of a wide one."""

    def __init__(self, rows, columns):
        self.decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self.pending = ""
        self.saved = None
        self.other = False
        self.cursor_shown = True
        self.last = " "
        self.cells = []
        self.row = self.column = 0
        self.resize(rows, columns)

    def resize(self, rows, columns):
        """What has no place is gone."""
        old = self.cells
        self.rows, self.columns = rows, columns
        self.cells = [(old[i] if i < len(old) else [])[:columns] for i in range(rows)]
        self.cells = [row + [" "] * (columns - len(row)) for row in self.cells]
        self.row = min(self.row, rows - 1)
        self.column = min(self.column, columns - 1)
        self.top, self.bottom = 0, rows - 1

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def text(self):
        return "\n".join(self.lines())

    def feed(self, data):
        self.pending += self.decoder.decode(data)
        while self.pending:
            if self.pending[0] != "\033":
                self.put(self.pending[0])
                self.pending = self.pending[1:]
                continue
            match = SEQUENCE.match(self.pending)
            if not match:
                assert len(self.pending) < 32, f"no sequence of {TERM}: {self.pending[:32]!r}"
                return
            self.pending = self.pending[match.end():]
            if match["final"]:
                args = [int(arg) if arg else 0 for arg in match["args"].split(";")]
                self.do_csi(match["private"], args, match["final"], match[0])
            elif match["single"] == "M":
                self.reverse_feed()

    def put(self, char):
        if char == "\n":
            self.line_feed()
        elif char == "\r":
            self.column = 0
        elif char == "\b":
            self.column = max(self.column - 1, 0)
        elif char == "\t":
            self.column = min(self.column // 8 * 8 + 8, self.columns - 1)
        elif char not in "\a\017\016":
            assert unicodedata.category(char) not in ("Cc", "Cf", "Zl", "Zp"), \
                f"{char!r} reached the terminal"
            self.put_visible(char)

    def put_visible(self, char):
        width = columns_of(char)
        if width == 0:
            at = self.column - 1
            self.cells[self.row][at - (self.cells[self.row][at] == "")] += char
            return
        if self.column + width > self.columns:
            self.column = 0
            self.line_feed()
        row = self.cells[self.row]
        for at in range(self.column, min(self.column + width, self.columns)):
            self.split_wide(row, at)
        row[self.column] = char
        if width == 2 and self.column + 1 < self.columns:
            row[self.column + 1] = ""
        self.column += width
        self.last = char

    def split_wide(self, row, at):
        if row[at] == "":
            row[at - 1] = row[at] = " "
        elif at + 1 < self.columns and row[at + 1] == "":
            row[at] = row[at + 1] = " "

    def line_feed(self):
        if self.row == self.bottom:
            del self.cells[self.top]
            self.cells.insert(self.bottom, [" "] * self.columns)
        else:
            self.row = min(self.row + 1, self.rows - 1)

    def reverse_feed(self):
        if self.row == self.top:
            del self.cells[self.bottom]
            self.cells.insert(self.top, [" "] * self.columns)
        else:
            self.row = max(self.row - 1, 0)

    def blank(self, row, begin, end):
        for at in range(begin, min(end, self.columns)):
            self.split_wide(self.cells[row], at)
            self.cells[row][at] = " "

    def do_csi(self, private, args, final, text):
        n = max(args[0], 1)
        if private:
            assert final in "hl" and set(args) <= MODES, f"unknown switch {text!r}"
            self.do_mode(args, final == "h")
        elif final in "Hf":
            self.row = min(n, self.rows) - 1
            self.column = min(max(args[1] if len(args) > 1 else 1, 1), self.columns) - 1
        elif final in "ABCDGd`":
            self.move(final, n)
        elif final in "JKX@PLM":
            self.edit(final, args[0], n)
        elif final == "b":
            for _ in range(n):
                self.put(self.last)
        elif final == "r":
            self.top = n - 1
            self.bottom = (args[1] if len(args) > 1 and args[1] else self.rows) - 1
            self.row = self.column = 0
        elif final in "ST":
            self.row = self.bottom if final == "S" else self.top
            for _ in range(n):
                (self.line_feed if final == "S" else self.reverse_feed)()
        else:
            assert final in "mhlt", f"unknown sequence {text!r}"

    def do_mode(self, modes, on):
        if 25 in modes:
            self.cursor_shown = on
        if 1049 in modes and on != self.other:
            self.other = on
            if on:
                self.saved = (self.cells, self.row, self.column)
                self.cells = [[" "] * self.columns for _ in range(self.rows)]
            else:
                self.cells, self.row, self.column = self.saved
                self.resize(self.rows, self.columns)

    def move(self, final, n):
        if final in "AB":
            self.row = min(max(self.row + (n if final == "B" else -n), 0), self.rows - 1)
        elif final in "CD":
            self.column = min(max(self.column + (n if final == "C" else -n), 0), self.columns - 1)
        elif final == "d":
            self.row = min(n, self.rows) - 1
        else:
            self.column = min(n, self.columns) - 1

    def edit(self, final, arg, n):
        row = self.cells[self.row]
        if final == "J":
            if arg == 0:
                self.blank(self.row, self.column, self.columns)
            for at in range(self.row + 1 if arg == 0 else 0,
                            self.row + 1 if arg == 1 else self.rows):
                self.blank(at, 0, self.columns)
        elif final == "K":
            self.blank(self.row, 0 if arg else self.column,
                       self.column + 1 if arg == 1 else self.columns)
        elif final == "X":
            self.blank(self.row, self.column, self.column + n)
        elif final == "@":
            row[self.column:] = ([" "] * n + row[self.column:])[:self.columns - self.column]
        elif final == "P":
            row[self.column:] = (row[self.column + n:] + [" "] * n)[:self.columns - self.column]
        else:
            for _ in range(n):
                del self.cells[self.row if final == "M" else self.bottom]
                self.cells.insert(self.bottom if final == "M" else self.row, [" "] * self.columns)


class Terminal:
    """Runs a command in a terminal of its own, of which it is the session's leader."""

    def __init__(self, *command, rows=24, columns=100, env=None):
        self.screen = Screen(rows, columns)
        self.raw = b""
        self.master, self.slave = os.openpty()
        self.set_size(rows, columns)
        self.modes = termios.tcgetattr(self.slave)
        base = {key: value for key, value in os.environ.items()
                if key not in ("LINES", "COLUMNS", "NO_COLOR") and not key.startswith("LC_")}
        env = {**base, "TERM": TERM, "LC_ALL": "C.UTF-8", **(env or {})}
        self.process = subprocess.Popen(
            command, stdin=self.slave, stdout=self.slave, stderr=self.slave,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={key: value for key, value in env.items() if value is not None})

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def set_size(self, rows, columns):
        """The kernel tells the program; what is on the way is of the old size."""
        self.read(0)
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, timeout):
        """Whether anything came."""
        if not select.select([self.master], [], [], timeout)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError as error:
            assert error.errno == errno.EIO
            return False
        self.raw += data
        self.screen.feed(data)
        return bool(data)

    def press(self, *keys):
        for key in keys:
            os.write(self.master, KEYS.get(key, key).encode())

    def wait(self, what):
        """What a function of the screen returns, or where a text is on it, as soon as there is."""
        until = time.monotonic() + HANG_S
        while True:
            result = what in self.screen.text() if isinstance(what, str) else what(self.screen)
            if result:
                return result
            assert time.monotonic() < until, f"still waiting for {what}:\n{self.screen.text()}"
            self.read(0.05)

    def watch(self, seconds):
        """Reads for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.read(0.05)

    def is_still(self, seconds):
        """Whether the screen is the same after so long."""
        before = self.screen.text()
        self.watch(seconds)
        return self.screen.text() == before

    def end(self):
        """The exit code, negative for a signal; all that it wrote is on the screen."""
        until = time.monotonic() + HANG_S
        while self.process.poll() is None:
            assert time.monotonic() < until, f"it does not end:\n{self.screen.text()}"
            self.read(0.05)
        while self.read(0.05):
            pass
        return self.process.returncode

    def is_restored(self):
        return not self.screen.other and self.screen.cursor_shown and \
            termios.tcgetattr(self.slave) == self.modes
