// A small Node server with one habit, given by name: server.js PORT HABIT.
'use strict';
const http = require('http');
const fs = require('fs');
const { execFile, execFileSync } = require('child_process');

const BODY = Buffer.alloc(1024, 'x');
const FILE = __filename;
const RECORDS = JSON.stringify(Array.from({ length: 300 }, (_, id) => ({ id, name: `valve ${id}`, readings: Array(20).fill(id) })));
const kept = [];

function send(response, body = BODY) {
  response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': body.length });
  response.end(body);
}

// Blocks the event loop as a synchronous call does, without the CPU.
function block(milliseconds) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

const habits = {
  plain: (request, response) => send(response),
  sleep: (request, response) => setTimeout(send, 10, response),
  block: (request, response) => { block(5); send(response); },
  wait: (request, response) => setTimeout(send, 5, response),
  spin: (request, response) => { const end = process.hrtime.bigint() + 2000000n; while (process.hrtime.bigint() < end); send(response); },
  'exec-sync': (request, response) => { execFileSync('/bin/true'); send(response); },
  exec: (request, response) => execFile('/bin/true', () => send(response)),
  'read-sync': (request, response) => { for (let i = 0; i < 100; i++) fs.readFileSync(FILE); send(response); },
  json: (request, response) => send(response, Buffer.from(JSON.stringify(JSON.parse(RECORDS).filter((r) => r.id % 2)))),
  regex: (request, response) => { /^(a|aa|aaa)+b$/.test('a'.repeat(20) + 'c'); send(response); },
  // Objects that live for a while: each collection must copy or mark them.
  garbage: (request, response) => {
    for (let i = 0; i < 200; i++) kept.push({ at: i, text: `reading ${i}`, list: [i, i + 1, i + 2] });
    if (kept.length > 120000) kept.splice(0, 2000);
    send(response);
  },
  'two-sends': (request, response) => {
    request.socket.setNoDelay(false);
    response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': BODY.length });
    response.flushHeaders();
    response.write(BODY.subarray(0, 512));
    setImmediate(() => response.end(BODY.subarray(512)));
  },
  'two-sends-no-delay': (request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': BODY.length });
    response.flushHeaders();
    response.write(BODY.subarray(0, 512));
    setImmediate(() => response.end(BODY.subarray(512)));
  },
  'answer-after-45-ms': (request, response) => setTimeout(send, 45, response),
  'answer-after-2-ms': (request, response) => setTimeout(send, 2, response),
  'a-tenth-missing': (request, response) => {
    if (asked++ % 10) return send(response);
    response.writeHead(404, { 'Content-Length': 0 });
    response.end();
  },
  // A piece every 20 ms, as a feed of events has it.
  stream: (request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    let left = 5;
    const timer = setInterval(() => {
      if (left--) return response.write('data: one event\n\n');
      clearInterval(timer);
      response.end();
    }, 20);
  },
  // Answers at once, but for 120 ms of every second.
  'periodic-stall': (request, response) => {
    stalling ??= setInterval(compactStore, 1000);
    send(response);
  },
  'slow-by-chance': (request, response) => {
    if (Math.random() < 0.01) setTimeout(send, 60, response);
    else send(response);
  },
  // A question for each of 20 rows, one after the other; or one for all of them.
  'ask-by-row': (request, response) => ask(20, 1, response),
  'ask-at-once': (request, response) => ask(1, 20, response),
  // The same 20 questions, side by side.
  'ask-together': (request, response) => askTogether(20, response),
};

let asked = 0;
let stalling;

function compactStore() {
  for (const end = Date.now() + 120; Date.now() < end;);
}

const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
function ask(turns, rows, response) {
  if (!turns) return send(response);
  const question = { port: Number(process.argv[4]), host: '127.0.0.1', path: `/bytes/${rows * 50}B`, agent };
  http.get(question, (answer) => answer.resume().on('end', () => ask(turns - 1, rows, response)));
}

function askTogether(turns, response) {
  let left = turns;
  const question = { port: Number(process.argv[4]), host: '127.0.0.1', path: '/bytes/50B', agent: wide };
  for (let n = 0; n < turns; n++) {
    http.get(question, (answer) => answer.resume().on('end', () => --left || send(response)));
  }
}
const wide = new http.Agent({ keepAlive: true, maxSockets: 256 });

const server = http.createServer({ noDelay: true, keepAliveTimeout: 65000 }, habits[process.argv[3]]);
server.listen({ port: Number(process.argv[2]), host: '127.0.0.1', backlog: 1024 });
