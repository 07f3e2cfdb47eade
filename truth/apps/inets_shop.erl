%% A server on Erlang's inets with one habit, given by name: inets_shop PORT HABIT [SERVICE_PORT].
-module(inets_shop).
-behaviour(gen_server).
-export([start/1, do/1, init/1, handle_call/3, handle_cast/2]).
-include_lib("inets/include/httpd.hrl").

-define(VALVES, 3000).

start([Port, Habit | Service]) ->
    {ok, Here} = file:get_cwd(),
    persistent_term:put(habit, prepare(Habit, Service)),
    {ok, _} = application:ensure_all_started(inets),
    {ok, _} = inets:start(httpd, [
        {port, list_to_integer(Port)}, {bind_address, {127, 0, 0, 1}}, {ipfamily, inet}, {server_name, "truth"},
        {server_root, Here}, {document_root, Here}, {modules, [?MODULE]}]).

%% What has to be there before the first request.
prepare("plain", []) -> plain;
prepare("out-of-table", []) ->
    ets:new(catalogue, [named_table, public, {read_concurrency, true}]),
    ets:insert(catalogue, {valves, valves()}),
    %% A table ends with its owner.
    ets:give_away(catalogue, whereis(init), none),
    out_of_table;
prepare("out-of-terms", []) ->
    persistent_term:put(catalogue, valves()),
    out_of_terms;
prepare("asks-in-one-process", [Service]) ->
    {ok, Process} = gen_server:start(?MODULE, url(Service), []),
    {asks_through, Process};
prepare("asks", [Service]) -> {asks, url(Service)}.

url(Service) -> "http://127.0.0.1:" ++ Service ++ "/".

valves() -> maps:from_list([{N, #{name => {valve, N}, place => [hall, N rem 7], open => N rem 2}} || N <- lists:seq(1, ?VALVES)]).

do(_Request) ->
    Body = page(persistent_term:get(habit)),
    Head = [{code, 200}, {content_type, "text/plain"}, {content_length, integer_to_list(iolist_size(Body))}],
    {proceed, [{response, {response, Head, Body}}]}.

page(plain) -> lists:duplicate(1024, $x);
%% What a table holds is copied for the one who looks it up.
page(out_of_table) ->
    [{valves, Valves}] = ets:lookup(catalogue, valves),
    named(Valves);
page(out_of_terms) -> named(persistent_term:get(catalogue));
page({asks, Url}) -> asked(Url);
page({asks_through, Process}) -> gen_server:call(Process, ask).

asked(Url) ->
    {ok, {_, _, Body}} = httpc:request(get, {Url, []}, [], []),
    Body.

named(Valves) -> io_lib:format("~p~n", [maps:get(7, Valves)]).

%% A process that asks the service for all others.
init(Url) -> {ok, Url}.
handle_call(ask, _From, Url) -> {reply, asked(Url), Url}.
handle_cast(_, Url) -> {noreply, Url}.
