// An Express application with one habit, given by name: express_app.js PORT HABIT.
"use strict";

const path = require("path");
const express = require("express");

const [port, habit] = process.argv.slice(2);
const body = "x".repeat(1024);
const views = path.join(__dirname, "express_views");
const valves = ["inlet", "outlet", "relief", "check", "gate"].map((name, n) => ({ name, n, open: n % 2 === 0 }));
const app = express();

app.set("view engine", "ejs");
app.set("views", views);

// Every page is looked for in the themes first, as they may replace it.
function themes() {
    app.set("views", [...Array.from({ length: 40 }, (_, n) => path.join(__dirname, "themes", `theme-${n}`)), views]);
}

const page = (request, response) => response.render("list", { title: "Valves", valves });
const plain = (request, response) => response.type("text/plain").send(body);

// Room for the largest answer there may be, of which each uses 1 KiB.
function generous(room) {
    return (request, response) => {
        const buffer = Buffer.alloc(room);
        buffer.write(body);
        response.type("text/plain").send(buffer.subarray(0, body.length));
    };
}

function main() {
    switch (habit) {
    case "views-uncached": app.disable("view cache"); app.get("/", page); break;
    case "views-cached": app.enable("view cache"); app.get("/", page); break;
    case "themes-uncached": app.disable("view cache"); themes(); app.get("/", (_, response) => response.render("short.txt")); break;
    case "theme-uncached": app.disable("view cache"); app.get("/", (_, response) => response.render("short.txt")); break;
    case "large-buffer": app.get("/", generous(2 << 20)); break;
    case "small-buffer": app.get("/", generous(1024)); break;
    default: app.get("/", plain);
    }
    const server = app.listen(Number(port), "127.0.0.1");
    server.keepAliveTimeout = 60000;
}

// A short text needs no engine worth the name: what is left is looking for it.
app.engine("txt", (file, options, callback) => callback(null, body));
main();
