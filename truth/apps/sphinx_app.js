// A search for reports by Sphinx, asked as if it were MariaDB, on Node's own server: sphinx_app.js PORT HABIT SPHINX_PORT.
"use strict";

const http = require("http");
const mysql = require("mysql");
const { promisify } = require("util");

const [port, habit, sphinx] = process.argv.slice(2);
const pool = mysql.createPool({ host: "127.0.0.1", port: Number(sphinx), connectionLimit: 16 });
const query = promisify(pool.query).bind(pool);
const [FREQUENT, SHOWN, SENTENCES] = [60, 10, 30];
let turn = 0;

// Three words of those that are frequent.
function words() {
    turn += 1;
    return [1, 2, 3].map((n) => `word${(turn * 7 + n * 13) % FREQUENT}`).join(" ");
}

// The whole text of a report, which lies beside Sphinx.
function textOf(id) {
    const sentences = Array.from({ length: SENTENCES }, (_, n) => `The valve of hall ${n} said word${(id + n) % FREQUENT} again.`);
    return sentences.join(" ");
}

function found(sought) {
    return query(`select id, title from plant where match(${mysql.escape(sought)}) limit ${SHOWN}`);
}

async function search() {
    const rows = await found(words());
    return rows.map((row) => `${row.id}: ${row.title}`).join("\n");
}

// Where the words stand in each report that was found.
async function excerptsInTurn() {
    const sought = words(), lines = [];
    for (const row of await found(sought)) {
        const [one] = await query(`call snippets(${mysql.escape(textOf(row.id))}, 'reports', ${mysql.escape(sought)})`);
        lines.push(`${row.id}: ${one.snippet}`);
    }
    return lines.join("\n");
}

async function excerptsTogether() {
    const sought = words(), rows = await found(sought);
    const texts = rows.map((row) => mysql.escape(textOf(row.id))).join(", ");
    const excerpts = await query(`call snippets((${texts}), 'reports', ${mysql.escape(sought)})`);
    return rows.map((row, n) => `${row.id}: ${excerpts[n].snippet}`).join("\n");
}

const pages = { search, "excerpts-in-turn": excerptsInTurn, "excerpts-together": excerptsTogether };

http.createServer((request, response) => {
    pages[habit]().then((text) => {
        response.setHeader("Content-Type", "text/plain");
        response.end(`${text}\n`);
    }, (error) => {
        response.statusCode = 500;
        response.end(`${error}\n`);
    });
}).listen(Number(port), "127.0.0.1");
