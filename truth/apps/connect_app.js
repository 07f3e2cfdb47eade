// An application on Connect with one habit, given by name: connect_app.js PORT HABIT [SERVICE_PORT].
"use strict";

const http = require("http");
const zlib = require("zlib");
const connect = require("connect");
const { marked } = require("marked");

const [port, habit, service] = process.argv.slice(2);
const body = "x".repeat(1024);
const agent = new http.Agent({ keepAlive: true });
const ordersEachMs = 500;
const notes = Array.from({ length: 25 }, (_, n) => `
## Hall ${n}

The **valve** of hall ${n} is _open_ and its pressure is \`${n} bar\`; see [the map](/halls/${n}).

- look at the *inlet*
- write down what it shows
`).join("");
const count = 150000;
const order = (_, n) => ({ id: n, valve: `valve ${n * 7919 % count}`, note: "open and shut" });
const orders = JSON.stringify(Array.from({ length: count }, order));

function text(response, what) {
    response.setHeader("Content-Type", "text/html");
    response.setHeader("Content-Length", Buffer.byteLength(what));
    response.end(what);
}

const plain = (request, response) => text(response, body);

// Notes are written in Markdown and change a few times a day.
const shown = (request, response) => text(response, marked.parse(notes));

function shownOnce() {
    const page = marked.parse(notes);
    return (request, response) => text(response, page);
}

// Stock is counted by another system.
const ask = () => new Promise((resolve, reject) => {
    http.get({ port: Number(service), path: "/bytes/16", agent }, (answer) => {
        answer.resume();
        answer.on("end", resolve);
    }).on("error", reject);
});

const stock = (request, response, next) => ask().then(() => text(response, body), next);

// As above, by one request after the other: somebody once saw two of them reserve the same valve.
let last = Promise.resolve();

function stockInTurn(request, response, next) {
    last = last.then(ask).then(() => text(response, body)).catch(next);
}

// The orders of the day are packed for the archive.
const packOrders = () => zlib.gzipSync(orders);
const packOrdersAside = () => zlib.gzip(orders, () => {});

function page() {
    switch (habit) {
    case "notes": return shown;
    case "notes-kept": return shownOnce();
    case "stock-in-turn": return stockInTurn;
    case "stock": return stock;
    case "orders-packed": setInterval(packOrders, ordersEachMs); return plain;
    case "orders-packed-aside": setInterval(packOrdersAside, ordersEachMs); return plain;
    default: return plain;
    }
}

const app = connect();
app.use("/", page());
const server = http.createServer(app);
server.keepAliveTimeout = 60000;
server.listen(Number(port), "127.0.0.1");
