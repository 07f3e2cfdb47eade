## A server on asynchttpserver with one habit, given by name: PORT HABIT [DATABASE_PORT].
import std/[asyncdispatch, asynchttpserver, db_postgres, os, strutils]

const
  sessionsKept = 300_000
  collectionPauseMs = 600
  page = "19980"

type
  Session = ref object
    user: string
    visitor: Visitor
  Visitor = ref object
    sessions: seq[Session]

let
  habit = paramStr(2)
  text = repeat('x', 1024)
var
  sessions: seq[Session]
  database: DbConn
  asked = 0

proc logIn() =
  for n in 0 ..< sessionsKept:
    let one = Session(user: "user " & $n, visitor: Visitor())
    one.visitor.sessions.add one
    sessions.add one

proc greeting(): string =
  inc asked
  result = "good day, " & sessions[asked * 7919 mod sessionsKept].user

proc collectNowAndThen() {.async.} =
  ## Gives back what is not needed any more.
  while true:
    await sleepAsync(collectionPauseMs)
    GC_fullCollect()

proc visit(): string =
  inc asked
  database.exec(sql"update counters set n = n + 1 where id = ?", $(asked mod 64 + 1))
  result = text

proc names(rows: seq[Row]): string =
  for row in rows:
    result.add row[0] & "\n"

proc body(): string =
  case habit
  of "greets", "greets-and-collects": greeting()
  of "visit": visit()
  of "page-by-offset": names database.getAllRows(sql"select name from valves order by id limit 20 offset ?", page)
  of "page-by-key": names database.getAllRows(sql"select name from valves where id > ? order by id limit 20", page)
  else: text

proc answer(request: Request) {.async, gcsafe.} =
  {.cast(gcsafe).}:
    await request.respond(Http200, body(), newHttpHeaders({"Content-Type": "text/plain"}))

if paramCount() > 2:
  database = open("", "truth", "", "host=127.0.0.1 port=" & paramStr(3) & " dbname=postgres")
if habit.startsWith "greets":
  logIn()
if habit == "greets-and-collects":
  asyncCheck collectNowAndThen()
waitFor newAsyncHttpServer().serve(Port(parseInt(paramStr(1))), answer, "127.0.0.1")
