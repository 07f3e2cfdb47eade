// A gateway on http-proxy with one habit: PORT HABIT BACKEND_PORT [NAME_SERVER_PORT].
'use strict';
const dns = require('dns');
const http = require('http');
const httpProxy = require('http-proxy');

const [port, habit, backend, names] = process.argv.slice(2);
const NAME = 'stock.truth.internal';
const KEEP_MS = 30000;

const agents = {
    'no-agent': () => undefined,
    'two-sockets': () => new http.Agent({ keepAlive: true, maxSockets: 2 }),
};
const agent = (agents[habit] || (() => new http.Agent({ keepAlive: true })))();
const proxy = httpProxy.createProxyServer({ agent });
proxy.on('error', (error, request, response) => {
    if (response.writeHead) response.writeHead(502);
    response.end(error.message);
});

const resolver = new dns.promises.Resolver();
if (names) resolver.setServers([`127.0.0.1:${names}`]);

async function looked_up() {
    const [address] = await resolver.resolve4(NAME);
    return address;
}

let known, until = 0;
function remembered() {
    if (Date.now() >= until) {
        until = Date.now() + KEEP_MS;
        known = looked_up();
    }
    return known;
}

const wheres = { named: looked_up, 'named-remembered': remembered };
const where = wheres[habit] || (async () => '127.0.0.1');

http.createServer(async (request, response) => {
    try {
        proxy.web(request, response, { target: `http://${await where()}:${backend}` });
    } catch (error) {
        response.writeHead(502);
        response.end(error.message);
    }
}).listen(port, '127.0.0.1');
