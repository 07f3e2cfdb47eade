"""A report beside the application: store_report.py PORT STORE_PORT HOW: the ten largest of 120,000 orders, every 600 ms.

HOW is `sorts`, where the store sorts them all each time and does nothing else meanwhile, or `kept`, where it keeps them in order.
The port is open when the orders are there.
"""

import socket
import sys
import time

import redis

ORDERS = 120_000
PAUSE_S = 0.6
FILL = """for n = 1, tonumber(ARGV[1]) do
local sum = n * 7919 % 1000003
redis.call('rpush', 'orders', sum)
redis.call('zadd', 'by-sum', sum, n) end"""

store = redis.Redis(host="127.0.0.1", port=int(sys.argv[2]))
store.eval(FILL, 0, ORDERS)
open_port = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    if sys.argv[3] == "sorts":
        store.sort("orders", start=0, num=10, desc=True)
    else:
        store.zrevrange("by-sum", 0, 9)
    time.sleep(PAUSE_S)
