"""A program that ejabberd asks for passwords, as it has them in its pipe: extauth.py MILLISECONDS.

A question is a text like `auth:user:host:password` behind its length. The password is looked up in a directory elsewhere, for
which it waits so long.
"""

import struct
import sys
import time

wait_s = float(sys.argv[1]) / 1000
questions, answers = sys.stdin.buffer, sys.stdout.buffer
while head := questions.read(2):
    asked = questions.read(*struct.unpack(">H", head)).decode().split(":", 3)
    time.sleep(wait_s)
    answers.write(struct.pack(">HH", 2, asked[0] != "auth" or asked[3] == "open and shut"))
    answers.flush()
