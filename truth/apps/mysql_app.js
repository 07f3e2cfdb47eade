// Valves in MariaDB by the package mysql, on Node's own server, with one habit: mysql_app.js PORT HABIT DATABASE_PORT.
"use strict";

const http = require("http");
const mysql = require("mysql");
const { promisify } = require("util");

const [port, habit, database] = process.argv.slice(2);
const pool = mysql.createPool({
    host: "127.0.0.1", port: Number(database), user: "truth", database: "truth", connectionLimit: 16,
    debug: habit === "valves-debug",
});
const query = promisify(pool.query).bind(pool);

const letters = habit === "orders-utf8" ? "utf8mb4" : "latin1";
const tables = [
    "create table readings (id int primary key, valve int, at datetime, bar double, key (valve)) engine=innodb",
    "insert into readings select seq, seq % 20, '2024-01-01' + interval seq minute, seq % 90 / 8 from seq_1_to_20000",
    `create table orders (id int primary key, valve varchar(40) character set ${letters})`,
    "insert into orders select seq, concat('valve ', seq * 7) from seq_1_to_500",
    "create table labels (name varchar(40) character set latin1 primary key, note varchar(80))",
    "insert into labels select concat('valve ', seq), repeat('open ', 6) from seq_1_to_5000",
    "analyze table readings, orders, labels",
];

// The mean pressure of a valve.
async function meanHere() {
    const rows = await query("select * from readings where valve = ?", [7]);
    return rows.reduce((sum, row) => sum + row.bar, 0) / rows.length;
}

async function meanThere() {
    const [row] = await query("select avg(bar) as mean from readings where valve = ?", [7]);
    return row.mean;
}

async function valves() {
    const rows = await query("select id, name, note from valves where id between 100 and 139");
    return rows.map((row) => `${row.id} ${row.name}: ${row.note}`).join("\n");
}

async function orders() {
    const rows = await query("select o.id, l.note from orders o join labels l on l.name = o.valve where o.id = ?", [7]);
    return rows.map((row) => `${row.id}: ${row.note}`).join("\n");
}

const pages = {
    "mean-here": meanHere, "mean-there": meanThere, "valves": valves, "valves-debug": valves, "orders": orders,
    "orders-utf8": orders,
};

async function main() {
    for (const statement of tables) {
        await query(statement);
    }
    http.createServer((request, response) => {
        pages[habit]().then((text) => {
            response.setHeader("Content-Type", "text/plain");
            response.end(`${text}\n`);
        }, (error) => {
            response.statusCode = 500;
            response.end(`${error.message}\n`);
        });
    }).listen(Number(port), "127.0.0.1");
}

main();
