// A plant's stock in Redis, with one habit: stock_app.js PORT HABIT REDIS_PORT [JOBS_A_SECOND].
// The habit `device` is another program: it tells what was taken from a shelf, as often as it is told to.
"use strict";
const http = require("http");
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
const redis = require("redis");
const genericPool = require("generic-pool");

const HALLS = 20000, PARTS = 200, POOL = 8, ACQUIRE_MS = 50;
// Moves out of some halls are written down.
const GUARDED = 4;

const parts = () => Array.from({ length: PARTS }, (_, n) => {
  const place = { hall: n % 40, x: (n * 7919) % 1000, y: (n * 104729) % 1000 };
  return { id: n, name: `part ${n}`, place, tags: ["seal", "brass"] };
});

// ---- which parts lie near a place: counted beside the loop ----

function near(all, x, y) {
  let count = 0;
  for (const { place } of all) if ((place.x - x) ** 2 + (place.y - y) ** 2 < 2500) count++;
  return count;
}

if (!isMainThread) {
  const known = workerData;
  parentPort.on("message", ({ job, x, y, all }) => parentPort.postMessage({ job, count: near(all || known, x, y) }));
}

function counter(known) {
  const worker = new Worker(__filename, { workerData: known }), open = new Map();
  let last = 0;
  worker.on("message", ({ job, count }) => {
    open.get(job)(count);
    open.delete(job);
  });
  return (question) => new Promise((done) => {
    open.set(++last, done);
    worker.postMessage({ job: last, ...question });
  });
}

// ---- Redis ----

const any = (most) => Math.floor(Math.random() * most);

async function connect(port) {
  const client = redis.createClient({ socket: { host: "127.0.0.1", port } });
  client.on("error", (error) => { throw error; });
  await client.connect();
  return client;
}

// What devices tell is taken in as it comes.
async function takeIn(client, seen) {
  for (;;) {
    const { element } = await client.blPop("taken", 0);
    seen.last = element;
  }
}

async function device(client, perSecond) {
  let owed = 0;
  setInterval(() => {
    for (owed += perSecond / 500; owed >= 1; owed--) client.rPush("taken", `part ${any(PARTS)}`);
  }, 2);
}

async function shelf(client, hall) {
  const [name, count] = await Promise.all([client.get(`name:${hall}`), client.get(`count:${hall}`)]);
  return `${name}: ${count}\n`;
}

// ---- what is moved from hall to hall: a transaction on a connection of its own, and a line in the book ----

async function write(client, text) {
  await client.multi().lPush("book", text).lTrim("book", 0, 999).exec();
}

async function move(pool, from, to, book) {
  const client = await pool.acquire();
  try {
    const keys = [`count:${from}`, `count:${to}`];
    await client.watch(keys);
    const [a, b] = (await client.mGet(keys)).map(Number);
    const moved = await client.multi().set(keys[0], a - 1).set(keys[1], b + 1).exec();
    if (from % GUARDED === 0) await book(client, `${from} to ${to}`);
    return moved;
  } finally {
    await pool.release(client);
  }
}

async function untilItIsDone(work) {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!["TimeoutError", "WatchError"].includes(error.constructor.name)) throw error;
    }
  }
}

// ---- pages ----

async function page(habit, port) {
  const client = await connect(port);
  for (let hall = 0; hall < HALLS; hall += 1000) {
    const names = Array.from({ length: 1000 }, (_, n) => [`name:${hall + n}`, `hall ${hall + n}`]);
    await client.mSet([...names, ...names.map((_, n) => [`count:${hall + n}`, "1000"])]);
  }
  if (habit.startsWith("shelf")) {
    takeIn(habit === "shelf-one-client" ? client : await connect(port), {});
    return () => shelf(client, any(HALLS));
  }
  if (habit.startsWith("near")) {
    const all = parts(), count = counter(all);
    const more = habit === "near-with-all" ? { all } : {};
    return async () => {
      const name = await client.get(`name:${any(HALLS)}`);
      return `${name}: ${await count({ x: any(1000), y: any(1000), ...more })}\n`;
    };
  }
  const factory = { create: () => connect(port), destroy: (one) => one.quit() };
  const pool = genericPool.createPool(factory, { min: POOL, max: POOL, acquireTimeoutMillis: ACQUIRE_MS });
  const book = habit === "move-by-two" ? (_, text) => pool.use((another) => write(another, text)) : write;
  return async () => {
    await untilItIsDone(() => move(pool, any(HALLS), any(HALLS), book));
    return "moved\n";
  };
}

async function main([port, habit, redisPort, perSecond]) {
  let answer = async () => "device\n";
  if (habit === "device") device(await connect(redisPort), Number(perSecond));
  else answer = await page(habit, redisPort);
  http.createServer({ keepAliveTimeout: 75000 }, (_, response) => {
    answer().then((text) => {
      response.writeHead(200, { "Content-Type": "text/plain", "Content-Length": Buffer.byteLength(text) });
      response.end(text);
    }, (error) => {
      console.error(error);
      response.writeHead(500).end();
    });
  }).listen(port, "127.0.0.1");
}

if (isMainThread) main(process.argv.slice(2));
