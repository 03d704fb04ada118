"""The inside's end of the channel: numbered, chained and keyed lines into a pipe that children do not inherit.

A part of the probe: it rides beside it, needs the standard library alone, and runs on Python 3.6.
"""

import binascii
import hashlib
import os
from typing import Any, Callable, Generator, Optional, Tuple

__all__ = ["pipe_writer", "signed"]

KEY_BYTES = 16
TAG_BYTES = 8
_UNSEALED = b'{"e":"changed","what":"recorder","when":"sent","file":"","line":0}\n'


def pipe_writer(channel: int) -> Callable[[bytes], object]:
    """Return a function that writes one line to the pipe at once, also when the pipe takes only a part of it."""
    os.set_inheritable(channel, False)
    owner = os.getpid()
    write = os.write
    getpid = os.getpid
    checked = not hasattr(os, "register_at_fork")  # 3.6: a forked child is known only by its pid

    def send(line: bytes) -> None:
        if checked and getpid() != owner:
            return
        sent = write(channel, line)
        while sent < len(line):
            line = line[sent:]
            sent = write(channel, line)

    def close_in_child() -> None:
        try:
            os.close(channel)
        except OSError:
            pass

    if not checked:
        os.register_at_fork(after_in_child=close_in_child)
    return send


def signed(write: Callable[[bytes], object]) -> Callable[[Any], object]:
    """Return a function that adds a number and a tag to each line; the first line that it writes carries the key.

    Each line's digest (BLAKE2b, keyed with the last line's) gives its tag and the next line's key, so a key that is
    found in memory later can't rewrite what was sent. The host checks: `swelive_plugin.readers.events.read_channel`.

    The first tuple that it is given is no line: it seals. Each entry (function, argument, value) must hold at every
    line from then on, or a ``changed`` record is written before it.
    """
    sender = _sender(write)
    next(sender)
    return sender.send


def _sender(write: Callable[[bytes], object]) -> Generator[None, Any, None]:
    # all that matters is in local variables of a sleeping generator: the one place which Python code can't reach
    # without the interpreter's saying so (gi_frame, gc)
    blake2b, hexlify = hashlib.blake2b, binascii.hexlify
    key = os.urandom(KEY_BYTES)
    number = 0
    sealed = None  # type: Optional[Tuple[Tuple[Callable[[Any], Any], Any, Any], ...]]
    write(b'{"e":"key","key":"%s"}\n' % hexlify(key))
    while True:
        line = yield
        if type(line) is tuple:
            sealed = line if sealed is None else sealed
            continue
        lines = (line,)  # type: Tuple[bytes, ...]
        for look, argument, value in sealed or ():
            if look(argument) is not value:
                lines, sealed = (_UNSEALED, line), ()
                break
        for text in lines:
            body = b'%s,"n":%d' % (text[:-2], number)  # without the closing brace and the newline
            digest = blake2b(body, key=key, digest_size=KEY_BYTES + TAG_BYTES).digest()
            key = digest[:KEY_BYTES]
            number += 1
            write(b'%s,"k":"%s"}\n' % (body, hexlify(digest[KEY_BYTES:])))
