// A server of Pike's own library, one event loop, with one habit, given by name:
// pike_app PORT HABIT DIRECTORY [SERVICE_PORT].

constant VALVES = 250000;
// What a page shows.
constant ROWS = 12;

string directory, service;
array(mapping) valves;
// Numbers of valves that were turned since they were written down.
array(int) turned = ({});
object server, journal;

// A page as whoever cares for its looks writes it; <? ?> are expressions of Pike.
string page_source = "<h1><?title?></h1>\n<table>\n"
    + "<tr><td><?id?></td><td><?upper_case(name)?></td></tr>\n" * ROWS + "</table>\n";
function page;

// A program made of a page.
function compiled_page(string source)
{
    array(string) parts = ({});
    foreach (source / "<?"; int n; string part) {
        if (n && sscanf(part, "%s?>%s", string code, string rest) == 2)
            parts += ({ "(string)(" + code + ")", sprintf("%O", rest) });
        else
            parts += ({ sprintf("%O", part) });
    }
    string code = "string page(string title, int id, string name) { return " + parts * " + " + "; }";
    return compile_string(code, "page")()->page;
}

void say(Protocols.HTTP.Server.Request request, string text)
{
    request->response_and_finish(([ "data": text, "type": "text/html" ]));
}

void plain(Protocols.HTTP.Server.Request request)
{
    mapping valve = valves[random(VALVES)];
    say(request, sprintf("valve %d of hall %d: %s\n", valve->id, valve->hall, valve->note));
}

void show_compiled(Protocols.HTTP.Server.Request request)
{
    say(request, compiled_page(page_source)("Valves", random(VALVES), "valve"));
}

void show(Protocols.HTTP.Server.Request request)
{
    say(request, page("Valves", random(VALVES), "valve"));
}

// A price from a service, for which everything else waits.
void price_in_turn(Protocols.HTTP.Server.Request request)
{
    say(request, Protocols.HTTP.get_url_data("http://127.0.0.1:" + service + "/") || "no price\n");
}

// A price from a service, meanwhile others are answered.
void price(Protocols.HTTP.Server.Request request)
{
    object asked = Protocols.HTTP.Query();
    asked->set_callbacks(
        lambda(object answer) {
            answer->async_fetch(lambda(object whole) { say(request, whole->data()); whole->close(); });
        },
        lambda(object failed) { say(request, "no price\n"); });
    Protocols.HTTP.do_async_method("GET", "http://127.0.0.1:" + service + "/", 0, 0, asked);
}

// Turns a valve; what was turned is written down in a second.
void turn(Protocols.HTTP.Server.Request request)
{
    int which = random(VALVES);
    valves[which]->open = !valves[which]->open;
    turned += ({ which });
    say(request, sprintf("valve %d is %s\n", which, valves[which]->open ? "open" : "shut"));
}

// All that is known, in a file that replaces the one before.
void write_all()
{
    call_out(write_all, 1);
    Stdio.write_file(directory + "/valves.json.new", Standards.JSON.encode(valves));
    mv(directory + "/valves.json.new", directory + "/valves.json");
    turned = ({});
}

// What has changed, at the end of a journal.
void write_turned()
{
    call_out(write_turned, 1);
    journal->write(Standards.JSON.encode(valves[turned[*]]) + "\n");
    turned = ({});
}

int main(int count, array(string) args)
{
    [int port, string habit] = ({ (int)args[1], args[2] });
    directory = args[3];
    service = count > 4 && args[4];
    valves = map(enumerate(VALVES), lambda(int n) {
        return ([ "id": n, "hall": n % 90, "open": n % 2, "note": "open and shut" ]);
    });
    page = compiled_page(page_source);
    journal = Stdio.File(directory + "/journal", "wac");
    if (habit == "turned-all-written") call_out(write_all, 1);
    if (habit == "turned") call_out(write_turned, 1);
    mapping(string:function) habits = ([
        "plain": plain, "page-compiled": show_compiled, "page": show, "price-in-turn": price_in_turn, "price": price,
        "turned-all-written": turn, "turned": turn ]);
    server = Protocols.HTTP.Server.Port(habits[habit], port, "127.0.0.1");
    return -1;
}
