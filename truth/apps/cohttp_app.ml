(* A server on cohttp with one habit, given by name: PORT HABIT [SERVICE_PORT]. *)
open Lwt.Syntax
open Cohttp_lwt_unix

let text = String.make 1024 'x'
let service_port = ref 0

(* ---- a service that knows the rate of exchange ---- *)

let uri () = Uri.of_string (Printf.sprintf "http://127.0.0.1:%d/" !service_port)

(* The library has no connections that are kept. *)
let rate_by_client () =
  let* _, body = Client.get (uri ()) in
  Cohttp_lwt.Body.to_string body

let connections =
  Lwt_pool.create 64 (fun () ->
      Lwt_io.open_connection (Unix.ADDR_INET (Unix.inet_addr_loopback, !service_port)))

let rec read_rest response reader =
  let open Cohttp.Transfer in
  let* chunk = Response.read_body_chunk reader in
  match chunk with
  | Done -> Lwt.return ""
  | Final_chunk last -> Lwt.return last
  | Chunk more ->
      let+ rest = read_rest response reader in
      more ^ rest

let rate () =
  Lwt_pool.use connections (fun (from_service, to_service) ->
      let* () = Lwt_io.write to_service "GET / HTTP/1.1\r\nHost: rates\r\n\r\n" in
      let* () = Lwt_io.flush to_service in
      let* answer = Response.read from_service in
      match answer with
      | `Ok response -> read_rest response (Response.make_body_reader response from_service)
      | `Eof | `Invalid _ -> Lwt.fail_with "the service said nothing")

(* ---- the rate is kept for a while ---- *)

let lifetime_ms = 500
let kept = ref None

let kept_rate lifetime_s () =
  match !kept with
  | Some (since, rate) when Unix.gettimeofday () -. since < lifetime_s -> Lwt.return rate
  | Some _ | None ->
      let+ fresh = rate () in
      kept := Some (Unix.gettimeofday (), fresh);
      fresh

let lifetime_rounded_s = float_of_int (lifetime_ms / 1000)
let lifetime_s = float_of_int lifetime_ms /. 1000.

(* ---- carts, of which a request changes some ---- *)

type cart = { user : string; lines : (int * string) list }

let carts_kept = 50_000
let changed = 16
let lines = 6
let carts : (int, cart) Hashtbl.t = Hashtbl.create carts_kept
let asked = ref 0

let cart n =
  let line m = (m, "valve " ^ string_of_int (n + m)) in
  { user = "user " ^ string_of_int n; lines = List.init lines line }

let change_carts () =
  for _ = 1 to changed do
    incr asked;
    let n = !asked * 7919 mod carts_kept in
    Hashtbl.replace carts n (cart n)
  done;
  let one = Hashtbl.find carts (!asked mod carts_kept) in
  Lwt.return (one.user ^ " has " ^ string_of_int (List.length one.lines) ^ " lines")

let filled page =
  for n = 0 to carts_kept - 1 do
    Hashtbl.replace carts n (cart n)
  done;
  page

let page = function
  | "rate-by-client" -> rate_by_client
  | "rate" -> rate
  | "lifetime-rounded" -> kept_rate lifetime_rounded_s
  | "lifetime" -> kept_rate lifetime_s
  | "carts" -> filled change_carts
  | _ -> fun () -> Lwt.return text

let () =
  let port = int_of_string Sys.argv.(1) in
  let page = page Sys.argv.(2) in
  if Array.length Sys.argv > 3 then service_port := int_of_string Sys.argv.(3);
  let callback _ _ _ =
    let* body = page () in
    Server.respond_string ~status:`OK ~body ()
  in
  Lwt_main.run
    (let* conduit = Conduit_lwt_unix.init ~src:"127.0.0.1" () in
     let ctx = Net.init ~ctx:conduit () in
     Server.create ~ctx ~mode:(`TCP (`Port port)) (Server.make ~callback ()))
