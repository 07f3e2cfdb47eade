% A server on the HTTP library of SWI-Prolog with one habit, given by name: PORT HABIT [SERVICE_PORT].
:- use_module(library(http/thread_httpd)).
:- use_module(library(http/http_open)).
:- initialization(main, main).

:- dynamic customer/1, service/1, text/1.

main([Port, Habit|Service]) :-
    maplist([Text]>>(atom_number(Text, Number), assertz(service(Number))), Service),
    remember(Habit),
    workers(Habit, Workers),
    atom_number(Port, Number),
    http_server(reply(Habit), [port('127.0.0.1':Number)|Workers]),
    thread_get_message(stop).

% Five, unless somebody says otherwise.
workers(asks_by_five, []) :- !.
workers(_, [workers(32)]).

reply(Habit, _Request) :-
    body(Habit, Body),
    format("Content-type: text/plain~n~n~s", [Body]).

body(asks_by_five, Body) :- !, asked(Body).
body(asks, Body) :- !, asked(Body).
body(labels_as_atoms, Body) :- !, labels(atom, Body).
body(labels_as_strings, Body) :- !, labels(string, Body).
body(_, Body) :- text(Body).

asked(Body) :-
    service(Port),
    format(string(URL), "http://127.0.0.1:~d/", [Port]),
    setup_call_cleanup(http_open(URL, In, []), read_string(In, _, Body), close(In)).

% ---- labels with a number that was never there before ----

labels(Kind, Body) :-
    flag(labels, N, N + 40),
    findall(Label, (between(1, 40, I), label(Kind, N + I, Label)), Labels),
    atomic_list_concat(Labels, '\n', Joined),
    string_codes(Joined, Body).

label(atom, N, Label) :- Number is N, format(atom(Label), "valve of order ~d", [Number]).
label(string, N, Label) :- Number is N, format(string(Label), "valve of order ~d", [Number]).

% ---- what is in memory ----

remember(Habit) :-
    sub_atom(Habit, 0, _, _, labels), !,
    forall(between(1, 400000, N), (atom_concat('customer ', N, Name), assertz(customer(Name)))).
remember(_) :-
    format(string(Text), "~`xt~1024|", []),
    assertz(text(Text)).
