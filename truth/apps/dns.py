"""A name server that answers every question with 127.0.0.1 after a while: dns.py PORT MILLISECONDS [LIFE_S]."""

import socket
import struct
import sys
import threading
import time

QUESTION_AT, TYPE_A, CLASS_IN = 12, 1, 1


def answer(question, life_s):
    """The question's name once more with its address, or no record for what is not an IPv4 address."""
    end = question.index(b"\0", QUESTION_AT) + 5
    kind = struct.unpack_from(">H", question, end - 4)[0]
    count = 1 if kind == TYPE_A else 0
    head = question[:2] + struct.pack(">HHHHH", 0x8180, 1, count, 0, 0)
    record = struct.pack(">HHHIH", 0xC000 | QUESTION_AT, TYPE_A, CLASS_IN, life_s, 4) + bytes([127, 0, 0, 1])
    return head + question[QUESTION_AT:end] + record * count


def main():
    port, delay_s = int(sys.argv[1]), float(sys.argv[2]) / 1000
    life_s = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    own = socket.socket(type=socket.SOCK_DGRAM)
    own.bind(("127.0.0.1", port))

    def later(question, peer):
        time.sleep(delay_s)
        own.sendto(answer(question, life_s), peer)

    while True:
        question, peer = own.recvfrom(4096)
        threading.Thread(target=later, args=(question, peer), daemon=True).start()


if __name__ == "__main__":
    main()
