"""A client of PostgreSQL that has read one row and forgotten its transaction: idle_transaction.py PORT DATABASE_PORT END.

END is `commit`, or `nothing`: then the transaction stays open, and what it may still want to see must be kept. The 12,000 changes
of the hours since are made at once; the port is open when they are made.
"""

import socket
import sys
import time

import psycopg2

CHANGES = """do $$ begin
for n in 1..12000 loop
    update counters set n = counters.n + 1 where id = 1;
    commit;
end loop;
end $$"""


def connect():
    return psycopg2.connect(host="127.0.0.1", port=sys.argv[2], user="truth", dbname="postgres")


reader, writer = connect(), connect()
reader.set_session(isolation_level="REPEATABLE READ")
reader.cursor().execute("select n from counters where id = 1")
if sys.argv[3] == "commit":
    reader.commit()
writer.autocommit = True
writer.cursor().execute(CHANGES)
writer.close()
open_port = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(3600)
